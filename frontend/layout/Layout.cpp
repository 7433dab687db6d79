#include "frontend/layout/Layout.h"
#include "frontend/layout/Context.h"
#include "frontend/layout/LayoutChecks.h"
#include "runtime/base/Rounding.h"
#include <algorithm>
#include <bit>
#include <numeric>

namespace mgc::frontend {

namespace {

// Fills a Layout field by field: the flag, else the file's default, else `chosen` because of `reason`.
class LayoutResolver {
public:
  LayoutResolver(const ModelDescription &model, const LayoutOptions &flags, const LayoutOptions &defaults,
                 const Supported &supported, Problems &problems)
      : model(model), flags(flags), defaults(defaults), supported(supported), problems(problems) {}

  Layout run() {
    resolveMesh();
    resolveBatch();
    resolveContext();
    resolveSchedule();
    resolveTarget();
    resolveLossTile();
    resolveOverlap();
    return std::move(layout);
  }

private:
  using Sizes = std::optional<int64_t> LayoutOptions::*;

  void record(std::string_view flag, std::string value, std::string reason) {
    layout.choices.push_back({std::string(flag), std::move(value), std::move(reason)});
  }

  template <typename T>
  std::optional<T> given(std::string_view flag, std::optional<T> LayoutOptions::*field) {
    const std::optional<T> &value = flags.*field ? flags.*field : defaults.*field;
    if (value)
      record(flag, textOf(*value), flags.*field ? "given" : "given in " + model.source);
    return value;
  }

  template <typename T> static std::string textOf(const T &value) { return fmt::format("{}", value); }
  template <typename T> static std::string textOf(const std::vector<T> &values) {
    return fmt::format("{}", fmt::join(values, " "));
  }

  int64_t size(std::string_view flag, Sizes field, int64_t least, int64_t limit, int64_t chosen,
               std::string reason) {
    std::optional<int64_t> value = given(flag, field);
    if (!value) {
      record(flag, std::to_string(chosen), std::move(reason));
      return chosen;
    }
    if (*value >= least && *value <= limit)
      return *value;
    problems.add("{} {} is not from {} to {}", flag, *value, least, limit);
    return least;
  }

  std::string word(std::string_view flag, std::optional<std::string> LayoutOptions::*field,
                   const std::vector<std::string> &allowed, const std::string &chosen, std::string reason) {
    std::optional<std::string> value = given(flag, field);
    if (!value) {
      record(flag, chosen, std::move(reason));
      return chosen;
    }
    if (std::find(allowed.begin(), allowed.end(), *value) == allowed.end()) {
      problems.add("{} {} is not known", flag, *value);
      problems.hint("possible {}: {}", flag, listOf(allowed));
    }
    return *value;
  }

  void resolveMesh();
  void resolveBatch();
  void resolveContext();
  void resolveContextTypes();
  void resolveHierarchy();
  void refuseWithoutContext();
  void resolveSchedule();
  void resolveTarget();
  void resolveLossTile();
  void resolveOverlap();
  void resolveGradientType();

  const ModelDescription &model;
  const LayoutOptions &flags, &defaults;
  const Supported &supported;
  Problems &problems;
  Layout layout;
};

void LayoutResolver::resolveMesh() {
  constexpr int64_t kMaxAxis = 1 << 16, kMaxWorld = 1 << 24;
  std::optional<int64_t> world = given("--world", &LayoutOptions::world);
  if (world && (*world < 1 || *world > kMaxWorld)) {
    problems.add("--world {} is not from 1 to {}", *world, kMaxWorld);
    world.reset();
  }
  layout.tp = size("--tp", &LayoutOptions::tp, 1, kMaxAxis, 1, "no tensor parallelism unless asked for");
  layout.pp = size("--pp", &LayoutOptions::pp, 1, kMaxAxis, 1, "no pipeline unless asked for");
  layout.cp = size("--cp", &LayoutOptions::cp, 1, kMaxAxis, 1, "no context parallelism unless asked for");
  int64_t rest = layout.tp * layout.cp * layout.pp;
  bool fits = world && *world >= rest && *world % rest == 0;
  layout.dp = size("--dp", &LayoutOptions::dp, 1, kMaxAxis, fits ? *world / rest : 1,
                   fits ? "world / (tp * cp * pp)" : "one replica unless asked for");
  if (world && (!fits || *world != layout.world())) {
    if (fits) {
      problems.add("--world {} is not tp * cp * pp * dp = {} * {} * {} * {}", *world, layout.tp, layout.cp,
                   layout.pp, layout.dp);
      problems.hint("possible --world with these: {}", layout.world());
      problems.hint("possible --dp: {}", *world / rest);
    } else {
      problems.add("--world {} does not divide over tp * cp * pp = {} * {} * {}", *world, layout.tp,
                   layout.cp, layout.pp);
      problems.hint("possible --world with these: {}, {}, {}, ... (a multiple of {})", rest, 2 * rest,
                    3 * rest, rest);
      problems.hint("possible tp * cp * pp for this world: {}", listOf(divisorsOf(*world, kMaxAxis)));
    }
  }
  if (auto split = splitTensorAxis(model.kinds.front().block.attention, layout.tp))
    std::tie(layout.tpGroups, layout.tpQueries) = *split;
  std::optional<bool> sp = given("--sp", &LayoutOptions::sp);
  layout.sequenceParallel = sp.value_or(true) && layout.tp > 1;
  if (!sp)
    record("--sp", layout.tp > 1 ? "true" : "false", layout.tp > 1 ? "tp > 1" : "tp = 1");
}

void LayoutResolver::resolveBatch() {
  constexpr int64_t kDefaultSequence = 1024;
  int64_t sequence = std::min(model.maxPositions, kDefaultSequence);
  layout.sequenceLength =
      size("--seq", &LayoutOptions::seq, 1, 1 << 30, sequence, "smaller of the model's positions and 1024");
  layout.resetPositionIds = given("--reset-position-ids", &LayoutOptions::resetPositionIds).value_or(false);
  layout.resetAttentionMask =
      given("--reset-attention-mask", &LayoutOptions::resetAttentionMask).value_or(false);
  layout.microBatchSize = size("--mbs", &LayoutOptions::mbs, 1, 1 << 20, 1, "least memory");
  layout.globalBatchSize = size("--gbs", &LayoutOptions::gbs, 1, int64_t(1) << 40,
                                layout.microBatchSize * layout.dp * layout.pp, "mbs * dp * pp");
  int64_t perMicrobatch = layout.microBatchSize * layout.dp;
  layout.microbatches = std::max<int64_t>(1, layout.globalBatchSize / perMicrobatch);
  layout.zero =
      size("--zero", &LayoutOptions::zero, 0, 1, 0, "optimizer state on every replica unless asked for");
}

// What says how to be context parallel is refused where the layout is not.
void LayoutResolver::refuseWithoutContext() {
  const auto refuse = [&](bool isGiven, std::string_view flag) {
    if (!isGiven)
      return;
    problems.add("{} with cp = 1: each rank has the whole sequence", flag);
    problems.hint("possible: {} with --cp 2 or more, or without {}", flag, flag);
  };
  refuse(flags.contextTypes.has_value(), "--cp-comm-type");
  refuse(flags.contextOrder.has_value(), "--cp-order");
  refuse(flags.contextHierarchy.has_value(), "--hierarchical-context-parallel-sizes");
}

void LayoutResolver::resolveContextTypes() {
  const std::string_view flag = "--cp-comm-type";
  std::vector<std::string> possible;
  for (const ContextType &type : contextTypes())
    if (type.refusal.empty())
      possible.push_back(type.name);
  std::vector<std::string> types =
      given(flag, &LayoutOptions::contextTypes).value_or(std::vector{possible.front()});
  if (!flags.contextTypes && !defaults.contextTypes)
    record(flag, possible.front(), "takes any number of heads");
  for (const std::string &name : types) {
    const auto row = std::ranges::find(contextTypes(), name, &ContextType::name);
    if (row != contextTypes().end() && row->refusal.empty())
      continue;
    problems.add("{} {}: {}", flag, name, row == contextTypes().end() ? "is not known" : row->refusal);
    problems.hint("possible {}: {}", flag, listOf(possible));
  }
  const auto layers = static_cast<size_t>(model.layerCount());
  if (types.size() != 1 && types.size() != layers) {
    problems.add("{}: {} types for {} = {}", flag, types.size(), model.names.layers, layers);
    problems.hint("possible: one type for all layers, or one per layer");
  }
  layout.contextTypes = types.size() == 1 ? std::vector(layers, types.front()) : types;
}

void LayoutResolver::resolveHierarchy() {
  const std::string_view flag = "--hierarchical-context-parallel-sizes";
  const bool isHierarchical = uses(layout, "a2a+p2p");
  const std::optional<std::vector<int64_t>> sizes = given(flag, &LayoutOptions::contextHierarchy);
  if (isHierarchical && !sizes)
    problems.add("--cp-comm-type a2a+p2p needs {} A B: ranks that exchange heads, and groups of them", flag);
  else if (sizes && (sizes->size() != 2 || (*sizes)[0] < 1 || layout.cp % (*sizes)[0] != 0 ||
                     layout.cp / (*sizes)[0] != (*sizes)[1]))
    problems.add("{} {} are not two sizes whose product is cp = {}", flag, fmt::join(*sizes, " "), layout.cp);
  else if (sizes)
    layout.cpInner = sizes->front();
  else
    return;
  std::vector<std::string> possible;
  for (int64_t inner : divisorsOf(layout.cp, layout.cp))
    possible.push_back(fmt::format("{} {}", inner, layout.cp / inner));
  if (!problems.empty())
    problems.hint("possible {}: {}", flag, listOf(possible));
}

void LayoutResolver::resolveContext() {
  if (layout.cp == 1)
    return refuseWithoutContext();
  resolveContextTypes();
  resolveHierarchy();
  if (!problems.empty())
    return;
  const bool gathersKeys = std::ranges::any_of(
      layout.contextTypes, [](const std::string &type) { return contextType(type).gathersKeys; });
  layout.zigzag = word("--cp-order", &LayoutOptions::contextOrder, {"zigzag", "contiguous"},
                       gathersKeys ? "zigzag" : "contiguous",
                       gathersKeys ? "a rank with an early chunk has a late one too, so causal work is equal"
                                   : "each rank has whole sequences in attention") == "zigzag";
  const AttentionDescription &attention = model.kinds.front().block.attention;
  if (auto split = splitHeads(attention, layout, layout.cp))
    layout.cpGroups = split->first;
  if (auto split = splitHeads(attention, layout, layout.cpInner))
    layout.cpInnerGroups = split->first;
}

void LayoutResolver::resolveSchedule() {
  auto rowOf = [&](const std::string &name) -> const ScheduleInfo * {
    for (const ScheduleInfo &row : supported.schedules)
      if (row.name == name)
        return &row;
    return nullptr;
  };
  const ScheduleInfo *asked = flags.schedule      ? rowOf(*flags.schedule)
                              : defaults.schedule ? rowOf(*defaults.schedule)
                                                  : nullptr;
  int64_t needed = asked ? asked->minVirtualStages : 1;
  layout.vpp = size("--vpp", &LayoutOptions::vpp, 1, 1 << 12, needed,
                    needed > 1 ? "the least this schedule takes" : "one chunk of layers per stage");
  std::vector<std::string> names;
  for (const ScheduleInfo &row : supported.schedules)
    names.push_back(row.name);
  auto chosen = std::ranges::find_if(
      supported.schedules, [&](const ScheduleInfo &row) { return row.byDefault && row.takes(layout.vpp); });
  layout.schedule = word("--schedule", &LayoutOptions::schedule, names,
                         chosen == supported.schedules.end() ? names.front() : chosen->name,
                         fmt::format("the default for --vpp {}", layout.vpp));
  if (const ScheduleInfo *row = rowOf(layout.schedule))
    layout.splitBackward = row->splitBackward;
}

// Each part but the first reads and writes the gradient of the projection once more, 8 bytes an element, beside 6 N operations
// of its three products: balance * 8 / (6 N) of their time for parts of N tokens.
void LayoutResolver::resolveLossTile() {
  constexpr double kShare = 0.02; // to twice that, by rounding down
  const double tokens = static_cast<double>(layout.target.balance) * 8 / 6 / kShare;
  const int64_t tile = std::bit_floor(static_cast<uint64_t>(tokens));
  layout.lossTile = size("--loss-tile", &LayoutOptions::lossTile, 0, 1 << 30, tile,
                         "memory for 2 to 4 % of the head's time");
}

void LayoutResolver::resolveTarget() {
  layout.dtype = word("--dtype", &LayoutOptions::dtype, supported.dtypes, supported.dtypes.front(),
                      "the first supported");
  resolveGradientType();
  std::vector<std::string> names;
  for (const TargetInfo &target : supported.targets)
    names.push_back(target.name);
  const std::string name =
      word("--target", &LayoutOptions::target, names, names.front(), "the first supported");
  const auto row = std::ranges::find(supported.targets, name, &TargetInfo::name);
  layout.target =
      row == supported.targets.end() ? supported.targets.front() : *row; // an unknown one has been refused
}

void LayoutResolver::resolveGradientType() {
  const std::string &widest = supported.dtypes.front();
  layout.gradientType = word("--grad-dtype", &LayoutOptions::gradientType, supported.dtypes, widest,
                             "sums over microbatches and ranks");
  if (layout.dtype == widest && layout.gradientType != widest && problems.empty()) {
    problems.add("--grad-dtype {} with --dtype {}: gradients would be coarser than parameters",
                 layout.gradientType, layout.dtype);
    problems.hint("possible --grad-dtype with --dtype {}: {}", widest, widest);
  }
}

void LayoutResolver::resolveOverlap() {
  constexpr int64_t kBucketElements = 40'000'000; // as Megatron-LM
  if (layout.replicas() == 1 && !flags.overlapGradReduce && !flags.bucketSize)
    return; // no gradient travels
  const bool pays = layout.target.collectivesRunBeside;
  std::optional<bool> overlap = given("--overlap-grad-reduce", &LayoutOptions::overlapGradReduce);
  if (!overlap)
    record("--overlap-grad-reduce", pays ? "true" : "false",
           pays ? "transfers leave the device's cores to the backward"
                : "ranks compute with all their cores");
  if (overlap.value_or(pays))
    layout.bucketElements = size("--ddp-bucket-size", &LayoutOptions::bucketSize, 1, int64_t(1) << 40,
                                 kBucketElements, "as Megatron-LM: elements reduced together");
  else if (given("--ddp-bucket-size", &LayoutOptions::bucketSize))
    problems.add(
        "--ddp-bucket-size without --overlap-grad-reduce: all gradients are reduced together, at the end");
}

} // namespace

std::optional<std::pair<int64_t, int64_t>> splitTensorAxis(const AttentionDescription &attention,
                                                           int64_t tp) {
  int64_t tpGroups = std::gcd(attention.groups, tp), tpQueries = tp / tpGroups;
  if ((attention.heads / attention.groups) % tpQueries != 0)
    return std::nullopt;
  return std::pair(tpGroups, tpQueries);
}

static Layout resolveAndCheck(const ModelDescription &model, const LayoutOptions &flags,
                              const LayoutOptions &defaults, const Supported &supported, Problems &problems) {
  Layout layout = LayoutResolver(model, flags, defaults, supported, problems).run();
  if (problems.empty()) // values out of range would only raise more
    checkLayout(model, supported, layout, problems);
  return layout;
}

static std::string flagsOf(const LayoutOptions &layout) {
  std::string context;
  if (layout.cp)
    context = fmt::format("--cp {} --cp-comm-type {} ", *layout.cp, fmt::join(*layout.contextTypes, ","));
  if (layout.contextHierarchy)
    context +=
        fmt::format("--hierarchical-context-parallel-sizes {} ", fmt::join(*layout.contextHierarchy, " "));
  std::string documents = layout.resetPositionIds.value_or(false) ? " --reset-position-ids" : "";
  documents += layout.resetAttentionMask.value_or(false) ? " --reset-attention-mask" : "";
  return fmt::format(
      "--tp {} {}--pp {} --dp {} --vpp {} {} --seq {} --mbs {} --gbs {} --zero {} --schedule {}{}{}",
      *layout.tp, context, *layout.pp, *layout.dp, *layout.vpp, *layout.sp ? "--sp" : "--no-sp", *layout.seq,
      *layout.mbs, *layout.gbs, *layout.zero, *layout.schedule,
      layout.dtype ? " --dtype " + *layout.dtype : "", documents);
}

// What was asked for and changes nothing in this layout. Scripts that try many layouts ask for it everywhere, so it is said
// and not refused.
static std::vector<std::string> idleOptions(const LayoutOptions &asked, const Layout &layout) {
  std::vector<std::string> idle;
  const auto add = [&](bool isIdle, const char *flag, const std::string &why) {
    if (isIdle)
      idle.push_back(fmt::format("{} does nothing here: {}", flag, why));
  };
  const bool oneReplica = layout.replicas() == 1;
  add(asked.sp.value_or(false) && layout.tp == 1, "--sp", "tp is 1, so no rank has a part of the sequence");
  add(asked.zero.value_or(0) > 0 && oneReplica, "--zero 1",
      "dp * cp is 1, so there are no replicas to share the optimizer's state");
  add(asked.overlapGradReduce.value_or(false) && oneReplica, "--overlap-grad-reduce",
      "dp * cp is 1, so no gradient is reduced over replicas");
  add(asked.lossTile.value_or(0) >= layout.sequenceLength * layout.microBatchSize, "--loss-tile",
      fmt::format("a microbatch has no more than {} tokens", layout.sequenceLength * layout.microBatchSize));
  add(asked.contextHierarchy && !uses(layout, "a2a+p2p"), "--hierarchical-context-parallel-sizes",
      "no layer has --cp-comm-type a2a+p2p");
  add(asked.schedule && layout.pp == 1, "--schedule",
      "pp is 1, so there is no bubble to fill and every schedule runs one microbatch after the other");
  return idle;
}

static LayoutOptions either(LayoutOptions flags, const LayoutOptions &defaults) {
  const auto fill = [&](auto LayoutOptions::*field) {
    if (!(flags.*field))
      flags.*field = defaults.*field;
  };
  fill(&LayoutOptions::sp), fill(&LayoutOptions::zero), fill(&LayoutOptions::overlapGradReduce);
  fill(&LayoutOptions::lossTile), fill(&LayoutOptions::schedule), fill(&LayoutOptions::contextHierarchy);
  return flags;
}

Result<Layout> resolveLayout(const ModelDescription &model, const LayoutOptions &flags,
                             const LayoutOptions &defaults, const Supported &supported) {
  Problems problems(model.source), none(model.source);
  Layout layout = resolveAndCheck(model, flags, defaults, supported, problems);
  if (problems.empty()) {
    std::ranges::move(idleOptions(either(flags, defaults), layout), std::back_inserter(layout.warnings));
    return layout;
  }
  const LayoutOptions near = nearestLayout(model, supported, layout);
  resolveAndCheck(model, near, {}, supported, none);
  if (none.empty())
    problems.hint("a layout that works: {}", flagsOf(near));
  return problems.status();
}

std::vector<plan::MeshView> Layout::views() const {
  using enum plan::AxisRole;
  return {{"ranks", {{"tp", tp}, {"cp", cp, sequence}, {"dp", dp, data}, {"pp", pp, stage}}},
          {"key/value heads", {{"tpr", tpQueries}, {"tpg", tpGroups}}},
          {"heads of a2a", {{"tp", tp}, {"cpr", cp / cpGroups}, {"cpg", cpGroups}}},
          {"a2a+p2p", {{"tp", tp}, {"cpi", cpInner}, {"cpo", cp / cpInner}}},
          {"heads of a2a+p2p", {{"tp", tp}, {"cpir", cpInner / cpInnerGroups}, {"cpig", cpInnerGroups}}}};
}

int64_t Layout::paddedVocabulary(const ModelDescription &model) const {
  constexpr int64_t kMultiple = 128; // as Megatron-LM's --make-vocab-size-divisible-by
  return roundUp(model.vocabulary, std::lcm(kMultiple, tp));
}

plan::Mesh Layout::mesh() const { return plan::refine(views()).take(); }

std::string describe(const Layout &layout) {
  std::string lines;
  for (const Choice &choice : layout.choices)
    lines += fmt::format("{:<10} {:<12} {}\n", choice.flag, choice.value, choice.reason);
  return lines + fmt::format("{:<10} {:<12} {}\n", "microbatches", layout.microbatches, "gbs / (mbs * dp)");
}

} // namespace mgc::frontend
