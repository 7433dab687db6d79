// See ChooseLayout.h.
#include "tools/auto/ChooseLayout.h"

#include "frontend/layout/Options.h"
#include "runtime/base/Problems.h"
#include "tools/auto/OtherValues.h"
#include "tools/flags/Quoted.h"
#include "tools/process/Process.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <ranges>

namespace mgc::tools {

namespace {

using frontend::LayoutOptions;

class LayoutChooser {
public:
  LayoutChooser(const CompileFlags &flags, const AutoModel &model, const SearchedSpace &space)
      : flags_(flags), model_(model), space_(space) {
    const LayoutOptions &given = space.given;
    report_ = {flags.model,
               space.machine.name,
               given.target.value_or(model.supported.targets.front().name),
               given.dtype.value_or(model.supported.dtypes.front()),
               space.memory,
               *given.gbs,
               *given.seq,
               flags.automatic.trainSamples,
               {}};
  }

  Result<LayoutOptions> run() {
    for (const int64_t devices : space_.devices)
      addSize(devices);
    say(stdout, "{}", flags_.automatic.json ? jsonOf(report_) : textOf(report_));
    MGC_TRY(checkOutput());
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
      return;
    }
    prove(found.answers, size);
    if (flags_.automatic.why && best_.hasPlan()) {
      size.hasOthers = true;
      size.others = otherValues(search, best_);
    }
  }

  static AutoCounts countsOf(const planner::SearchCounts &counts) {
    return {counts.enumerated, counts.refused, counts.tooLarge, counts.tooSlow,
            counts.estimated,  counts.unfit,   counts.shapes,   counts.compiled};
  }

  void prove(const std::vector<planner::Answer> &answers, AutoSize &size) {
    std::vector<LayoutOptions> options;
    for (const planner::Answer &answer : answers)
      options.push_back(answer.options);
    const std::vector<planner::Trial> trials = planner::tryEach(options, model_.make);
    std::vector<size_t> order(answers.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::ranges::stable_sort(order, {}, [&](size_t i) { return std::pair(!trials[i].hasPlan(), trials[i].seconds); });
    for (const size_t i : order)
      size.layouts.push_back(provedOf(answers[i], trials[i]));
    best_ = trials[order.front()];
  }

  ProvedLayout provedOf(const planner::Answer &answer, const planner::Trial &trial) const {
    ProvedLayout proved{shortLayout(space_.given, answer.options), commandOf(answer.options)};
    proved.seconds = trial.seconds, proved.tokensPerSecond = trial.tokensPerSecond;
    proved.utilisation = trial.modelUtilisation;
    proved.bytes = trial.bytes, proved.hostBytes = trial.hostBytes;
    proved.searchedSeconds = answer.estimate.seconds, proved.searchedBytes = answer.estimate.bytes();
    proved.problem = trial.hasPlan() ? differenceIn(proved, space_.memory, space_.hostMemory)
                                     : "the search found a layout that has no plan: " + trial.refusal;
    return proved;
  }

  std::string commandOf(const LayoutOptions &options) const {
    std::string command = "mgc compile " + quoted(flags_.model);
    for (const auto word : std::views::split(frontend::flagsOf(options), ' '))
      command += " " + quoted(std::string(word.begin(), word.end()));
    if (!flags_.rules.empty())
      command += " --rules " + quoted(flags_.rules);
    if (!flags_.fusion)
      command += " --no-fusion";
    return command + " -o " + (flags_.output.empty() ? "PLAN" : quoted(flags_.output));
  }

  Status verify() const {
    Problems problems("--auto");
    for (const AutoSize &size : report_.sizes) {
      if (size.layouts.empty())
        problems.add("{}{}", report_.sizes.size() > 1 ? fmt::format("{} devices: ", size.devices) : "", size.refusal);
      for (const ProvedLayout &layout : size.layouts)
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
  AutoReport report_;
  planner::Trial best_;
};

} // namespace

Result<LayoutOptions> chooseLayout(const CompileFlags &flags, const AutoModel &model) {
  MGC_ASSIGN(space, spaceOf(flags, model.file, model.supported));
  return LayoutChooser(flags, model, space).run();
}

} // namespace mgc::tools
