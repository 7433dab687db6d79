// The text of a machine file -> a Machine. See Machine.h.
#include "plan/cost/FileChecks.h"
#include "plan/cost/Machine.h"

namespace mgc::cost {

// --- Fields, as plan/json/Fields.h has those of plans ---------------------------------------------------------

using plan::Of, plan::required, plan::optional;

template <typename V> constexpr void fields(V &v, Of<PeakRates>) { required<&PeakRates::f32, &PeakRates::bf16>(v); }

template <typename V> constexpr void fields(V &v, Of<ProductTile>) {
  required<&ProductTile::m, &ProductTile::n, &ProductTile::fraction>(v);
}

template <typename V> constexpr void fields(V &v, Of<ProductRates>) {
  required<&ProductRates::units>(v);
  v.required("start_depth", &ProductRates::startDepth);
  required<&ProductRates::tiles>(v);
}

template <typename V> constexpr void fields(V &v, Of<AttentionRates>) {
  required<&AttentionRates::forward, &AttentionRates::backward>(v);
}

template <typename V> constexpr void fields(V &v, Of<MemoryRates>) {
  required<&MemoryRates::bytes, &MemoryRates::bandwidth, &MemoryRates::fraction>(v);
}

template <typename V> constexpr void fields(V &v, Of<HostRates>) {
  required<&HostRates::bytes, &HostRates::bandwidth, &HostRates::fraction>(v);
}

template <typename V> constexpr void fields(V &v, Of<LinkLevel>) {
  optional<&LinkLevel::ranks>(v);
  required<&LinkLevel::bandwidth, &LinkLevel::fraction, &LinkLevel::latency>(v);
  optional<&LinkLevel::base, &LinkLevel::units>(v);
}

template <typename V> constexpr void fields(V &v, Of<Machine>) {
  required<&Machine::name, &Machine::device, &Machine::target, &Machine::flops, &Machine::products, &Machine::attention,
           &Machine::rows, &Machine::memory, &Machine::host, &Machine::launch, &Machine::links, &Machine::sources>(v);
}

namespace {

using plan::Place;

// --- Values ------------------------------------------------------------------------------------------------

// Larger rates and smaller times and fractions are no machine's, and would make quotients that no double holds.
constexpr double kMostRate = 1e24, kMostSeconds = 1, kLeastFraction = 1e-9;
constexpr int64_t kMostRanks = int64_t(1) << 31, kMostTile = 1 << 16;
constexpr size_t kMostLinks = 8, kMostTiles = 32;

constexpr std::string_view kSourced[] = {"flops", "products", "attention", "rows", "memory", "host", "launch", "links"};

class MachineChecks : FileChecks {
public:
  using FileChecks::FileChecks;

  void check(const Machine &machine, const Place &place) {
    text(machine.name, place.field("name"));
    text(machine.device, place.field("device"));
    target(machine.target, place.field("target"));
    rates(machine.flops, place.field("flops"));
    products(machine.products, place.field("products"));
    attention(machine.attention, place.field("attention"));
    fraction(machine.rows, place.field("rows"));
    memory(machine.memory, place.field("memory"));
    host(machine.host, place.field("host"));
    number(machine.launch, 0, kMostSeconds, place.field("launch"));
    links(machine, place.field("links"));
    sources(machine.sources, kSourced, "field with numbers", place.field("sources"));
  }

private:
  void rate(double value, const Place &place) { number(value, 1, kMostRate, place); }
  void fraction(double value, const Place &place) {
    violations_.expect(value >= kLeastFraction && value <= 1, place, "found {}, expected a fraction: from {} to 1",
                       value, kLeastFraction);
  }
  void whole(int64_t value, int64_t most, const Place &place) {
    violations_.expect(value >= 1 && value <= most, place, "found {}, expected a whole number from 1 to {}", value,
                       most);
  }

  void target(const std::string &value, const Place &place) {
    std::vector<std::string> names = {std::string(nameOf(plan::Target::cpu))};
    for (const plan::KernelLevelFacts &level : plan::kKernelLevels)
      if (level.target != plan::Target::cpu)
        names.push_back(fmt::format("{}:{}", nameOf(level.target), level.name));
    violations_.expect(std::ranges::find(names, value) != names.end(), place, "found \"{}\", expected one of {}",
                       printable(value), fmt::join(names, ", "));
  }
  void rates(const PeakRates &flops, const Place &place) {
    rate(flops.f32, place.field("f32"));
    rate(flops.bf16, place.field("bf16"));
  }
  void products(const ProductRates &products, const Place &place) {
    whole(products.units, kMostTile, place.field("units"));
    number(products.startDepth, 0, kMostTile, place.field("start_depth"));
    const Place tiles = place.field("tiles");
    violations_.expect(!products.tiles.empty() && products.tiles.size() <= kMostTiles, tiles,
                       "found {} tiles, expected 1 to {}", products.tiles.size(), kMostTiles);
    for (size_t i = 0; i < products.tiles.size(); ++i)
      tile(products.tiles[i], tiles.element(i));
  }
  void tile(const ProductTile &tile, const Place &place) {
    whole(tile.m, kMostTile, place.field("m"));
    whole(tile.n, kMostTile, place.field("n"));
    fraction(tile.fraction, place.field("fraction"));
  }
  void attention(const AttentionRates &attention, const Place &place) {
    fraction(attention.forward, place.field("forward"));
    fraction(attention.backward, place.field("backward"));
  }
  void memory(const MemoryRates &memory, const Place &place) {
    number(memory.bytes, 1, kMostMemory, place.field("bytes"));
    rate(memory.bandwidth, place.field("bandwidth"));
    fraction(memory.fraction, place.field("fraction"));
  }

  void host(const HostRates &host, const Place &place) {
    number(host.bytes, 1, kMostMemory, place.field("bytes"));
    rate(host.bandwidth, place.field("bandwidth"));
    fraction(host.fraction, place.field("fraction"));
  }

  void links(const Machine &machine, const Place &place) {
    const std::vector<LinkLevel> &links = machine.links;
    violations_.expect(!links.empty() && links.size() <= kMostLinks, place, "found {} levels, expected 1 to {}",
                       links.size(), kMostLinks);
    for (size_t i = 0; i < links.size(); ++i) {
      const Place at = place.element(i);
      rate(links[i].bandwidth, at.field("bandwidth"));
      fraction(links[i].fraction, at.field("fraction"));
      number(links[i].latency, 0, kMostSeconds, at.field("latency"));
      number(links[i].base, 0, kMostSeconds, at.field("base"));
      violations_.expect(machine.products.units < 1 || (links[i].units >= 0 && links[i].units < machine.products.units),
                         at.field("units"),
                         "found {}, expected a whole number from 0 to {}: products keep one of their {}",
                         links[i].units, machine.products.units - 1, machine.products.units);
      domain(links, i, at.field("ranks"));
    }
  }
  // Domains of a level are made of whole domains of the level before.
  void domain(const std::vector<LinkLevel> &links, size_t i, const Place &place) {
    const int64_t ranks = links[i].ranks, before = i > 0 ? links[i - 1].ranks : 1;
    if (i + 1 == links.size()) {
      violations_.expect(ranks == 0, place, "found {}, expected nothing: the last level joins all ranks", ranks);
      return;
    }
    violations_.expect(ranks != 0, place, "is not there; expected how many ranks the level joins, from 1 to {}",
                       kMostRanks);
    if (ranks != 0)
      whole(ranks, kMostRanks, place);
    if (ranks > 0 && before > 0)
      violations_.expect(ranks % before == 0 && ranks > (i > 0 ? before : 1), place,
                         "found {}, expected a larger multiple of the {} ranks of the level before", ranks, before);
  }
};

} // namespace

Result<Machine> parseMachine(std::string_view text) {
  MGC_ASSIGN(json, parseJson(text));
  plan::Violations violations;
  Machine machine;
  const Place root, place = root.field("machine");
  plan::JsonReader(violations).read(json, machine, place);
  if (violations.count() == 0)
    MachineChecks(violations).check(machine, place);
  MGC_TRY(violations.status());
  return machine;
}

} // namespace mgc::cost
