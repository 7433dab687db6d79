// See ChooseLayout.h.
#include "tools/auto/ChooseLayout.h"

#include "frontend/layout/Options.h"
#include "runtime/base/File.h"
#include "runtime/base/Problems.h"
#include "tools/auto/AskedLayouts.h"
#include "tools/auto/Nearest.h"
#include "tools/auto/OtherValues.h"
#include "tools/auto/Pareto.h"
#include "tools/auto/Sensitivity.h"
#include "tools/page/Page.h"
#include "tools/process/Process.h"

#include <chrono>
#include <nlohmann/json.hpp>

namespace mgc::tools {

namespace {

using frontend::LayoutOptions;

class LayoutChooser {
public:
  LayoutChooser(const CompileFlags &flags, const AutoModel &model, const SearchedSpace &space,
                const std::vector<AskedSearch> &asked)
      : flags_(flags), model_(model), space_(space), asked_(asked) {
    const LayoutOptions &given = space.given;
    report_ = {flags.model,
               space.machine.name,
               given.target.value_or(model.supported.targets.front().name),
               given.dtype.value_or(model.supported.dtypes.front()),
               space.memory,
               *given.gbs,
               *given.seq,
               flags.automatic.trainSamples,
               {},
               model.file.model.hasExperts() ? std::optional(space.imbalance) : std::nullopt};
  }

  Result<LayoutOptions> run() {
    for (const int64_t devices : space_.devices)
      addSize(devices);
    say(stdout, "{}", flags_.automatic.json ? jsonOf(report_) : textOf(report_));
    MGC_TRY(checkOutput());
    if (const std::string &page = flags_.automatic.html; !page.empty())
      MGC_TRY(writeFileAtomically(page, searchPage(nlohmann::json::parse(jsonOf(report_)))));
    MGC_TRY(verify());
    return best_.options;
  }

private:
  void addSize(int64_t devices) {
    const LayoutSearch search(space_, model_, devices);
    AutoSize &size = report_.sizes.emplace_back();
    size.devices = devices;
    const auto start = std::chrono::steady_clock::now();
    const planner::FoundLayouts found =
        search.fastest(space_.given, space_.devices.size() > 1 ? 1 : size_t(flags_.automatic.top));
    size.counts = countsOf(found.counts);
    size.counts.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (found.answers.empty()) {
      size.refusal = search.refusalOf(space_.given, found);
      if (LayoutSearch::needsMemory(found)) {
        size.nearest = nearestOf(search, flags_);
        size.refusal += textOf(*size.nearest, space_, found.misfit);
      }
      return;
    }
    const std::vector<MachineChange> changes =
        flags_.automatic.sensitivity ? changesOf(space_.machine) : std::vector<MachineChange>();
    std::vector<cost::Machine> machines;
    for (const MachineChange &change : changes)
      machines.push_back(change.machine);
    const std::vector<Proof> proofs = prove(search, flags_, found.answers, machines);
    for (const Proof &proof : proofs)
      size.layouts.push_back(proof.layout);
    best_ = proofs.front().trial;
    if (!best_.hasPlan())
      return;
    if (!changes.empty())
      size.changes = sensitivityOf(proofs, changes);
    addSearches(search, size);
  }

  // Others that are asked for beside the best layout.
  void addSearches(const LayoutSearch &search, AutoSize &size) {
    if (flags_.automatic.why)
      size.others = otherValues(search, best_);
    for (const AskedSearch &asked : asked_)
      size.asked.push_back(askedLayout(asked, search, flags_, best_));
    if (flags_.automatic.pareto && size.layouts.front().problem.empty())
      size.pareto = paretoRows(search, flags_, size.layouts.front());
  }

  static AutoCounts countsOf(const planner::SearchCounts &counts) {
    return {counts.enumerated, counts.refused, counts.tooLarge, counts.tooSlow, counts.estimated,
            counts.cuts,       counts.unfit,   counts.shapes,   counts.compiled};
  }

  Status verify() const {
    Problems problems(searchText(flags_));
    for (const AutoSize &size : report_.sizes) {
      if (size.layouts.empty())
        problems.add("{}{}", report_.sizes.size() > 1 ? fmt::format("{} devices: ", size.devices) : "", size.refusal);
      for (const ProvedLayout &layout : size.all())
        if (!layout.problem.empty()) {
          problems.add("an error of mgc: {}", layout.problem);
          problems.hint("{}", layout.command);
        }
    }
    return problems.status();
  }

  const CompileFlags &flags_;
  const AutoModel &model_;
  const SearchedSpace &space_;
  const std::vector<AskedSearch> &asked_;
  AutoReport report_;
  planner::Trial best_;
};

} // namespace

static Status verifyPlace(const CompileFlags &flags) {
  if (isSameFile(flags.automatic.html, flags.model))
    return errorf("--html {}: is the model itself, expected another file", flags.automatic.html);
  return verifyCreatable(pageKind(), flags.automatic.html, flags.force);
}

Result<LayoutOptions> chooseLayout(const CompileFlags &flags, const AutoModel &model) {
  MGC_ASSIGN(space, spaceOf(flags, model.file, model.supported));
  if (!flags.automatic.html.empty())
    MGC_TRY(verifyPlace(flags));
  MGC_ASSIGN(asked, askedSearches(flags, model, space));
  return LayoutChooser(flags, model, space, asked).run();
}

} // namespace mgc::tools
