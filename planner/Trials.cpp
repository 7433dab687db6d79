// See Trials.h.
#include "planner/Trials.h"

#include "compiler/Phases.h"
#include "compiler/assemble/Assemble.h"
#include "compiler/assemble/TaskTimes.h"
#include "dialects/mg/Target.h"
#include "frontend/layout/Options.h"
#include "plan/cost/StepTime.h"
#include "plan/prove/ProvePlan.h"
#include "runtime/base/InParallel.h"
#include "runtime/base/NumberText.h"

#include <algorithm>

using namespace mlir;

namespace mgc::planner {

namespace {

using frontend::Layout;
using frontend::LayoutOptions;

// A trial makes no kernels, of which a proof asks that they have names.
void nameKernels(plan::Plan &plan) {
  const auto level = std::ranges::find(plan::kKernelLevels, plan.target, &plan::KernelLevelFacts::target);
  plan.kernels = {{plan::KernelLevel(level - std::begin(plan::kKernelLevels)), "kernels/untried"}};
  for (plan::Program &program : plan.programs)
    for (plan::Instruction &instruction : program.instructions)
      if (auto *kernel = std::get_if<plan::RowKernel>(&instruction.body))
        kernel->symbol = "untried";
}

Status run(Trial &trial, const MakeModule &make, const TrialAssumptions &assumptions) {
  MLIRContext context(MLIRContext::Threading::DISABLED); // trials run beside each other
  context.loadDialect<MgDialect, func::FuncDialect>();
  MGC_ASSIGN(module, make(context, trial.options));
  MGC_TRY(runPhases(*module, {}));
  MGC_ASSIGN(machine, machineNamedIn(*module));
  MGC_ASSIGN(assembled, assemble(*module, &trial.leastBudget));
  assembled.plan.target = targetOf(*module);
  nameKernels(assembled.plan);
  MGC_TRY(plan::provePlan(assembled.plan));
  trial.ranks = assembled.plan.mesh.worldSize();
  for (const plan::StagePlan &stage : assembled.plan.stages) {
    trial.bytes = std::max(trial.bytes, stage.bytes);
    trial.hostBytes = std::max(trial.hostBytes, stage.hostBytes);
  }
  const cost::StepAssumptions load{.imbalance = assumptions.imbalance};
  const cost::StepCost step = cost::predict(assembled.plan, machine, load);
  trial.seconds = step.seconds, trial.tokensPerSecond = step.tokensPerSecond;
  trial.modelUtilisation = step.modelUtilisation, trial.parts = step.parts;
  for (const cost::Machine &other : assumptions.others)
    trial.secondsOn.push_back(cost::predict(assembled.plan, other, load).seconds);
  return Status::ok();
}

// --- Levels and offloading

bool sharesOuter(const Asked &asked) { return asked.all.outerSharding == frontend::kShardsOuter; }
bool isLevelOpen(const Asked &asked) { return asked.all.zero == frontend::kAuto; }
bool isOffloadOpen(const Asked &asked) { return asked.all.offload == frontend::kOffloadAuto; }

Result<int64_t> ranksOfNode(const LayoutOptions &options, const MakeModule &make) {
  MLIRContext context;
  context.loadDialect<MgDialect, func::FuncDialect>();
  MGC_ASSIGN(module, make(context, options));
  MGC_ASSIGN(machine, machineNamedIn(*module));
  return machine.links.empty() ? int64_t(0) : machine.links.front().ranks;
}

// One instance of the optimizer, and as many as have their data ranks in a node each, if these are several.
std::vector<int64_t> instancesOf(const Asked &asked, const Layout &layout, int64_t ranksOfNode) {
  if (asked.all.instances)
    return {*asked.all.instances};
  const int64_t ranks = layout.replicas() * layout.tp;
  if (ranksOfNode > layout.tp * layout.cp && ranks % ranksOfNode == 0)
    if (const int64_t instances = ranks / ranksOfNode; instances > 1 && layout.dp % instances == 0)
      return {1, instances};
  return {1};
}

// Without data ranks there is level 0 alone.
std::vector<LayoutOptions> levelsOf(const Asked &asked, const Layout &layout, int64_t ranksOfNode) {
  std::vector<LayoutOptions> levels;
  const auto add = [&](int64_t zero, std::optional<int64_t> instances, std::optional<bool> reshard) {
    levels.push_back(asked.flags);
    levels.back().zero = zero;
    levels.back().instances = instances;
    levels.back().reshard = reshard;
  };
  const LayoutOptions &flags = asked.flags;
  const bool isWhole =
      asked.all.reshard.value_or(true) && !sharesOuter(asked); // nothing is asked for that is of level 3
  if (layout.replicas() == 1)
    return {settledOf(asked)};
  if (isWhole && asked.all.instances.value_or(1) == 1)
    add(0, flags.instances, flags.reshard);
  for (const int64_t count : instancesOf(asked, layout, ranksOfNode)) {
    const std::optional<int64_t> instances = count == 1 || flags.instances ? flags.instances : std::optional(count);
    for (int64_t level = isWhole ? 1 : 3; level <= 3; ++level)
      add(level, instances, flags.reshard);
    if (!asked.all.reshard)
      add(3, instances, false);
  }
  return levels;
}

std::vector<LayoutOptions> offloadsOf(const Asked &asked, LayoutOptions options) {
  if (!isOffloadOpen(asked))
    return {options};
  constexpr int kParts = 4;
  options.offload = frontend::kOffloadGiven;
  std::vector<LayoutOptions> all(1 + kParts, options);
  all.front().hostMemory.reset(); // there is nothing that it bounds
  for (int part = 1; part <= kParts; ++part) {
    all[part].optimizerOffload = true;
    if (part < kParts)
      all[part].offloadFraction = double(part) / kParts;
  }
  return all;
}

Trial tryOptions(const LayoutOptions &options, const MakeModule &make, const TrialAssumptions &assumptions) {
  Trial trial{.options = options};
  if (const Status status = run(trial, make, assumptions); !status.isOk())
    trial.refusal = status.message().substr(0, status.message().find('\n'));
  return trial;
}

} // namespace

std::vector<Trial> tryEach(const std::vector<LayoutOptions> &options, const MakeModule &make,
                           const TrialAssumptions &assumptions) {
  std::vector<Trial> trials(options.size());
  constexpr int64_t kMostThreads = 8; // a trial takes 50 to 100 MiB
  forEachInParallel(
      std::ssize(options), [&](int64_t i) { trials[i] = tryOptions(options[i], make, assumptions); }, kMostThreads);
  return trials;
}

std::string differing(const Asked &asked, const LayoutOptions &options) {
  const std::string flags = frontend::changedFlags(asked.flags, options);
  return flags.empty() ? "no more options" : flags;
}

bool isOpen(const Asked &asked) { return isLevelOpen(asked) || isOffloadOpen(asked); }

LayoutOptions settledOf(const Asked &asked) {
  LayoutOptions settled = asked.flags;
  if (isOffloadOpen(asked))
    settled.offload = frontend::kOffloadGiven, settled.hostMemory.reset();
  if (isLevelOpen(asked)) {
    settled.zero = 0, settled.outerSharding.reset();
    if (asked.all.instances)
      settled.instances = 1;
    if (asked.all.reshard)
      settled.reshard = true;
  }
  return settled;
}

std::vector<Trial> tryAll(const Asked &asked, const Layout &layout, const MakeModule &make) {
  std::vector<LayoutOptions> levels = {asked.flags};
  if (isLevelOpen(asked)) {
    const Result<int64_t> ranks = ranksOfNode(settledOf(asked), make);
    levels = levelsOf(asked, layout, ranks.isOk() ? *ranks : 0);
  }
  std::vector<LayoutOptions> all;
  for (const LayoutOptions &level : levels)
    for (const LayoutOptions &options : offloadsOf(asked, level))
      all.push_back(options);
  return tryEach(all, make);
}

Result<Trial> fastest(const Asked &asked, const std::vector<Trial> &trials) {
  const Trial *best = nullptr, *smallest = nullptr;
  for (const Trial &trial : trials) {
    if (trial.hasPlan() && (!best || trial.seconds < best->seconds))
      best = &trial;
    if (trial.leastBudget && (!smallest || trial.leastBudget < smallest->leastBudget))
      smallest = &trial;
  }
  if (best)
    return *best;
  const std::string problem = fmt::format("auto: none of the {} fits", trials.size());
  return smallest ? errorf("{}\n  possible: --memory {}, with {}", problem, *smallest->leastBudget,
                           differing(asked, smallest->options))
                  : errorf("{}: {}", problem, trials.empty() ? "there is none" : trials.front().refusal);
}

std::string describe(const Asked &asked, const std::vector<Trial> &trials) {
  std::string text;
  for (const Trial &trial : trials)
    text +=
        fmt::format("  {}: {}\n", differing(asked, trial.options),
                    trial.hasPlan() ? fmt::format("{}, {} a step on {} rank{}", bytesText(double(trial.bytes)),
                                                  secondsText(trial.seconds), trial.ranks, trial.ranks == 1 ? "" : "s")
                    : trial.leastBudget ? fmt::format("takes at least {}", bytesText(double(*trial.leastBudget)))
                                        : trial.refusal);
  return text;
}

} // namespace mgc::planner
