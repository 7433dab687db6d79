// See SearchedSpace.h.
#include "tools/auto/SearchedSpace.h"

#include "dialects/mg/training/MemorySize.h"
#include "dialects/mg/training/StageSizes.h"
#include "frontend/layout/Options.h"
#include "frontend/layout/StageCut.h"
#include "runtime/base/Problems.h"

#include <algorithm>
#include <numeric>

namespace mgc::tools {

namespace {

using frontend::LayoutOptions;

std::string flagOf(const frontend::AnyOptionField &field) { return frontend::optionOf(field).flag; }

class SpaceReader {
public:
  SpaceReader(const CompileFlags &flags, const frontend::ModelFile &file, const frontend::Supported &supported)
      : flags_(flags), file_(file), supported_(supported) {}

  Result<SearchedSpace> run() {
    space_.given = frontend::either(flags_.layout, file_.defaults);
    space_.onlyOpen = !flags_.automatic.isOn;
    readOpen();
    readRanges();
    readBatch();
    readDevices();
    readWritten();
    readLoad();
    MGC_TRY(problems_.status());
    MGC_TRY(readMachine());
    MGC_TRY(readMemory());
    return std::move(space_);
  }

private:
  // `--zero auto` leaves open what --auto chooses anyway.
  void readOpen() {
    for (const frontend::LayoutOption &row : frontend::layoutOptions()) {
      if (const bool isOpen = frontend::isOpen(row, space_.given); isOpen && !space_.onlyOpen)
        std::visit([&](auto field) { (space_.given.*field).reset(); }, row.field);
      else if (row.isSearchedCut)
        readCut(std::get<frontend::OptionField<std::string>>(row.field), row.flag, isOpen);
      if (!row.isEstimated && isOn(row)) {
        problems_.add("{} with {}: the search does not know what it costs", search_, row.flag);
        problems_.hint("possible: {} without {}, or the layout that it gives with it", search_, row.flag);
      }
    }
  }

  // The layers of chunks that are to be searched are said by no other option; if they are given, all are.
  void readCut(frontend::OptionField<std::string> field, const std::string &flag, bool isOpen) {
    LayoutOptions others = space_.given;
    const std::optional<std::string> text = std::exchange(others.*field, std::nullopt);
    if (isOpen && frontend::isCutGiven(others)) {
      problems_.add("{} auto with an option that says the layers of each chunk", flag);
      problems_.hint("possible: one of them alone");
    }
    if (!text || isOpen)
      return;
    const Result<std::vector<int64_t>> layers = parseStageSizes(*text);
    if (!layers.isOk())
      return problems_.add("{}: {}", flag, layers.status().message());
    const int64_t all = std::accumulate(layers->begin(), layers->end(), int64_t(0));
    problems_.expect(all == file_.model.allLayerCount(), "{}: {} layers in all; expected {} = {}", flag, all,
                     file_.model.allLayersName(), file_.model.allLayerCount());
  }

  // It is given, and no switch that is off.
  bool isOn(const frontend::LayoutOption &row) const {
    return std::visit(
        [&](auto field) {
          const auto &value = space_.given.*field;
          if constexpr (std::is_same_v<decltype(field), frontend::OptionField<bool>>)
            return value.value_or(false);
          else
            return value.has_value();
        },
        row.field);
  }

  void readRanges() {
    for (const frontend::LayoutOption &row : frontend::layoutOptions())
      if (const auto *field = std::get_if<frontend::OptionField<int64_t>>(&row.field))
        if (const std::optional<int64_t> &value = space_.given.**field; value && *value != frontend::kAuto)
          problems_.expect(*value >= row.least && *value <= row.most, "{} {} is not from {} to {}", row.flag, *value,
                           row.least, row.most);
  }

  void readBatch() {
    if (!space_.given.gbs) {
      problems_.add("{} without {}: the sequences of a step are part of the training, and are never chosen", search_,
                    flagOf(&LayoutOptions::gbs));
      problems_.hint("expected {} SEQUENCES", flagOf(&LayoutOptions::gbs));
    }
    if (!space_.given.seq)
      space_.given.seq = std::min(file_.model.maxPositions, *frontend::optionOf(&LayoutOptions::seq).chosen);
  }

  void readDevices() {
    const LayoutOptions &given = space_.given;
    space_.devices = flags_.automatic.devices;
    if (space_.devices.empty()) {
      if (given.world)
        space_.devices = {*given.world};
      else if (const std::optional<int64_t> product = productOfAxes())
        space_.devices = {*product};
      else {
        problems_.add("{}: the number of devices is missing", search_);
        problems_.hint("expected {} N, or {} N{}", kDevicesFlag, flagOf(&LayoutOptions::world),
                       space_.onlyOpen ? "" : ", or all of --tp, --cp, --pp and --dp");
      }
    }
    const frontend::LayoutOption &world = frontend::optionOf(&LayoutOptions::world);
    for (const int64_t devices : space_.devices)
      if (problems_.expect(devices <= world.most, "{}: more than {} devices", fixedAxes(), world.most))
        readFixed(devices);
  }

  // No more than the most that there may be, and then it is refused with --world. Nothing where an axis is searched.
  std::optional<int64_t> productOfAxes() const {
    const int64_t most = frontend::optionOf(&LayoutOptions::world).most + 1;
    int64_t product = 1;
    for (const auto field : {&LayoutOptions::tp, &LayoutOptions::cp, &LayoutOptions::pp, &LayoutOptions::dp}) {
      const std::optional<int64_t> &size = space_.given.*field;
      if (space_.onlyOpen ? size == frontend::kAuto : !size)
        return std::nullopt;
      product = std::min(most, product * std::clamp(size.value_or(1), int64_t(1), most));
    }
    return product;
  }

  // Axes that are fixed are of so many devices.
  void readFixed(int64_t devices) {
    const LayoutOptions &given = space_.given;
    if (given.world && *given.world != devices)
      problems_.add("--devices {} with {} {}: both are the number of ranks", devices, flagOf(&LayoutOptions::world),
                    *given.world);
    int64_t left = devices;
    for (const auto field : {&LayoutOptions::tp, &LayoutOptions::cp, &LayoutOptions::pp, &LayoutOptions::dp})
      if (const std::optional<int64_t> &size = given.*field; size && *size > 0) {
        if (left % *size != 0) {
          problems_.add("--devices {} with {}: they cannot be shared out so", devices, fixedAxes());
          problems_.hint("expected axes whose product divides {}", devices);
          return;
        }
        left /= *size;
      }
    const auto isFixed = [&](const std::optional<int64_t> &size) { return size && *size != frontend::kAuto; };
    if (left > 1 && isFixed(given.tp) && isFixed(given.cp) && isFixed(given.pp) && isFixed(given.dp))
      problems_.add("--devices {} with {}: these are {} ranks", devices, fixedAxes(), devices / left);
  }

  std::string fixedAxes() const {
    LayoutOptions axes;
    axes.tp = space_.given.tp, axes.cp = space_.given.cp, axes.pp = space_.given.pp, axes.dp = space_.given.dp;
    return frontend::flagsOf(axes);
  }

  void readWritten() {
    if (space_.devices.size() > 1 && !flags_.output.empty()) {
      problems_.add("-o {} with several --devices: one plan is of one number of devices", flags_.output);
      problems_.hint("possible: one number, or no -o, which compares them");
    }
    const AutoFlags &asked = flags_.automatic;
    for (const auto &[isAsked, flag] :
         {std::pair(asked.why, kWhyFlag), std::pair(!asked.explained.empty(), kExplainFlag),
          std::pair(asked.pareto, kParetoFlag), std::pair(asked.sensitivity, kSensitivityFlag)})
      if (space_.devices.size() > 1 && isAsked) {
        problems_.add("{} with several --devices: it is of the layouts of one number of devices", flag);
        problems_.hint("possible: one number, or no {}", flag);
      }
  }

  void readLoad() {
    if (!flags_.automatic.imbalance)
      return;
    space_.imbalance = *flags_.automatic.imbalance;
    if (!file_.model.hasExperts()) {
      problems_.add("{} with {}: the model has no experts, whose load it is", search_, kImbalanceFlag);
      problems_.hint("possible: {} without {}", search_, kImbalanceFlag);
    }
  }

  // The target and the machine follow from each other.
  Status readMachine() {
    LayoutOptions &given = space_.given;
    if (given.machine) {
      const auto row = std::ranges::find(supported_.machines, *given.machine, &frontend::MachineInfo::name);
      if (row == supported_.machines.end())
        return errorf("{} {}: there is no such machine\n  possible: {}{}", flagOf(&LayoutOptions::machine),
                      *given.machine, fmt::join(frontend::optionOf(&LayoutOptions::machine).words(supported_), ", "),
                      frontend::optionOf(&LayoutOptions::machine).orFile);
      MGC_SET(space_.machine,
              isText(row->inProgram) ? cost::parseMachine(row->inProgram) : cost::findMachine(row->inProgram));
    } else {
      space_.machine = cost::machineForTarget(given.target.value_or(supported_.targets.front().name));
      given.machine = space_.machine.name;
    }
    if (!given.target && isTarget(space_.machine.target))
      given.target = space_.machine.target;
    if (given.target && kindOf(*given.target) != kindOf(space_.machine.target))
      return errorf("{} {}: the machine runs plans for {}, these are for {}\n  possible: no {}, which follows from the "
                    "machine",
                    flagOf(&LayoutOptions::machine), *given.machine, space_.machine.target, *given.target,
                    flagOf(&LayoutOptions::target));
    return Status::ok();
  }
  static std::string kindOf(const std::string &target) { return target.substr(0, target.find(':')); }
  static bool isText(const std::string &machine) { return machine.find('{') != machine.npos; }
  bool isTarget(const std::string &name) const {
    return std::ranges::find(supported_.targets, name, &frontend::TargetInfo::name) != supported_.targets.end();
  }

  Status readMemory() {
    LayoutOptions &given = space_.given;
    const auto device = static_cast<int64_t>(space_.machine.memory.bytes);
    const auto host = static_cast<int64_t>(space_.machine.host.bytes);
    MGC_SET(space_.memory, bytesOf(&LayoutOptions::memory, device));
    MGC_SET(space_.hostMemory, bytesOf(&LayoutOptions::hostMemory, host));
    if (given.memory || !(space_.onlyOpen || fixesPolicies()))
      given.memory = std::to_string(space_.memory);
    return Status::ok();
  }

  Result<int64_t> bytesOf(frontend::OptionField<std::string> field, int64_t all) const {
    const std::optional<std::string> &text = space_.given.*field;
    if (!text)
      return all;
    MGC_ASSIGN(size, parseMemorySize(*text).at(flagOf(field)));
    return size.bytes > 0 ? size.bytes : static_cast<int64_t>(size.share * double(all));
  }

  // With an option of what is recomputed there is no budget by which policies are chosen.
  bool fixesPolicies() const {
    const auto isGiven = [&](const frontend::AnyOptionField &any) {
      return std::visit([&](auto field) { return (space_.given.*field).has_value(); }, any);
    };
    return std::ranges::any_of(frontend::optionOf(&LayoutOptions::memory).replaces, isGiven);
  }

  const CompileFlags &flags_;
  const std::string search_ = searchText(flags_);
  const frontend::ModelFile &file_;
  const frontend::Supported &supported_;
  SearchedSpace space_;
  Problems problems_;
};

} // namespace

Result<SearchedSpace> spaceOf(const CompileFlags &flags, const frontend::ModelFile &file,
                              const frontend::Supported &supported) {
  return SpaceReader(flags, file, supported).run();
}

} // namespace mgc::tools
