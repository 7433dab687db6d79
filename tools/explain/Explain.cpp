// See Explain.h.
#include "tools/explain/Explain.h"

#include "compiler/schedule/Text.h"
#include "plan/Optimizers.h"
#include "plan/Plan.h"
#include "plan/RowRoom.h"
#include "plan/cost/PlanFacts.h"
#include "plan/cost/PlanOrders.h"
#include "plan/cost/StepTime.h"
#include "plan/json/PlanJson.h"
#include "plan/mesh/Mesh.h"
#include "plan/prove/ProvePlan.h"
#include "runtime/base/File.h"
#include "runtime/base/NumberText.h"
#include "tools/page/FactsJson.h"
#include "tools/page/Page.h"
#include "tools/page/Prediction.h"
#include "tools/process/Process.h"

#include <algorithm>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace mgc;
using namespace mgc::cost;
using namespace mgc::tools;

namespace {

std::string axesText(const plan::Mesh &mesh) {
  std::vector<std::string> axes;
  for (const plan::Axis &axis : mesh.axes)
    axes.push_back(fmt::format("{} {}", axis.name, axis.size));
  return axes.empty() ? "1 rank" : fmt::format("{} = {} ranks", fmt::join(axes, " x "), mesh.worldSize());
}

// The masters and gradients that are kept besides parameters of less than f32.
std::string precisionText(const plan::Plan &plan) {
  if (plan.dtype == plan::DType::f32)
    return "";
  return fmt::format(" with f32 masters; gradients {}", plan::nameOf(plan.gradientType));
}

// Whether instances of the optimizer share out what the update needs.
bool sharesOuter(const plan::Plan &plan) {
  return std::ranges::any_of(plan.stages, [](const plan::StagePlan &stage) {
    return std::ranges::any_of(stage.buckets, [](const plan::Bucket &bucket) { return !bucket.outerAxes.empty(); });
  });
}

// "adamw keeps master, exp_avg, exp_avg_sq: ZeRO-1, a slice on each data rank".
std::string optimizerText(const plan::Plan &plan) {
  std::vector<std::string> kept;
  bool isSliced = false;
  for (const plan::StagePlan &stage : plan.stages)
    for (const plan::Bucket &bucket : stage.buckets)
      for (const plan::State &state : bucket.states)
        if ((state.role == plan::StateRole::master || state.role == plan::StateRole::optimizer) &&
            std::ranges::find(kept, state.name) == kept.end())
          kept.push_back(state.name), isSliced |= state.sliced;
  return fmt::format("{} keeps {}: {}", nameOf(plan.optimizer),
                     kept.empty() ? "nothing" : fmt::to_string(fmt::join(kept, ", ")),
                     !isSliced ? "replicated"
                               : fmt::format("ZeRO-{}, a slice on each data rank{}", plan.zero,
                                             !plan.mesh.named.contains(std::string(plan::kInstanceAxis)) ? ""
                                             : sharesOuter(plan) ? ", of values on each of an instance of the optimizer"
                                                                 : " of each instance of the optimizer"));
}

void printModel(const plan::Plan &plan) {
  if (const std::vector<std::string_view> terms = termsOf(plan); !terms.empty())
    say(stdout, "loss       cross_entropy + {}\n", fmt::join(terms, " + "));
  if (const plan::DropChoices *drops = dropsOf(plan))
    say(stdout, "experts    each has room for {} of the {} choices of {} tokens, those of the {}\n", drops->capacity,
        drops->tokens * drops->together * drops->chosen, drops->tokens * drops->together,
        drops->byPosition ? "first positions" : "largest weights");
}

// "671 B parameters (37.5 B active), 1.20 M trained"
std::string parametersText(const ParameterCounts &counts) {
  return fmt::format("{} parameters{}{}", countText(double(counts.all)),
                     counts.active == counts.all ? "" : fmt::format(" ({} active)", countText(double(counts.active))),
                     counts.trained == counts.all ? ""
                                                  : fmt::format(", {} trained", countText(double(counts.trained))));
}

void printLayout(const plan::Plan &plan, const PlanFacts &facts, const StepCost &step) {
  say(stdout, "model      {}, {}, {}{}\n", plan.modelType, parametersText(facts.parameters), plan::nameOf(plan.dtype),
      precisionText(plan));
  printModel(plan);
  say(stdout, "target     {}\n", plan::describeTarget(plan));
  say(stdout, "mesh       {}\n", axesText(plan.mesh));
  say(stdout, "batch      {} sequences of {} tokens a step: {} microbatches of {} per data rank\n",
      plan.globalBatchSize, plan.sequenceLength, plan.microbatches, plan.microBatchSize);
  say(stdout, "schedule   {}{}, bubble {:.1f} % of the predicted step\n", plan.schedule,
      plan.virtualStages > 1 ? fmt::format(" with {} chunks per stage", plan.virtualStages) : "", 100 * step.bubble());
  say(stdout, "optimizer  {}\n", optimizerText(plan));
  say(stdout, "work       {}FLOP a step on all ranks\n", countText(facts.flops) + (facts.flops < 1000 ? " " : ""));
}

// Columns; where the output is no terminal, as many as a page has.
int64_t widthOfTerminal() {
  constexpr int64_t kPage = 120;
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kPage;
}

// --- Tables ------------------------------------------------------------------------------------------------

using TableRow = std::vector<std::string>;

// The first row is the head; the first column is left-aligned, the others right-aligned.
std::string tableText(const std::vector<TableRow> &rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const TableRow &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const TableRow &row : rows) {
    text += fmt::format("  {:<{}}", row[0], widths[0]);
    for (size_t i = 1; i < row.size(); ++i)
      text += fmt::format("  {:>{}}", row[i], widths[i]);
    text += "\n";
  }
  return text;
}

// "0 to 1, 8"
std::string layersText(const std::vector<LayerRange> &layers) {
  std::string text;
  for (const LayerRange &range : layers)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", range.begin,
                        range.end - range.begin > 1 ? fmt::format(" to {}", range.end - 1) : "");
  return text.empty() ? "none" : text;
}

// How equal the ranks' work in attention is; empty without context parallelism.
std::string balanceText(const std::vector<StageFacts> &stages) {
  double least = 1, most = 1;
  bool any = false;
  for (const StageFacts &stage : stages)
    for (double share : stage.attentionShares)
      least = std::min(least, share), most = std::max(most, share), any = true;
  return any ? fmt::format("  of the mean work in attention, ranks of context parallelism do {:.1f} to {:.1f} %\n",
                           100 * least, 100 * most)
             : "";
}

// With a column of the encoder's layers where there is an encoder.
std::string workTable(const plan::Plan &plan, const std::vector<StageFacts> &stages, const StepCost &step) {
  std::vector<TableRow> rows = {
      {"stage", "layers", "parameters", "work a step", "idle", "memory", "at least", "bytes"}};
  for (const StageFacts &stage : stages)
    rows.push_back({fmt::format("{}", rows.size() - 1), layersText(stage.layers), countText(double(stage.parameters)),
                    countText(stage.flops) + (stage.flops < 1000 ? " FLOP" : "FLOP"),
                    fmt::format("{:.1f} %", 100 * step.stages[rows.size() - 1].idle), bytesText(double(stage.bytes)),
                    bytesText(double(stage.leastBytes)), fmt::format("{}", stage.bytes)});
  if (std::ranges::any_of(stages, [](const StageFacts &stage) { return stage.hostBytes > 0; }))
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i].insert(rows[i].end() - 1, i == 0 ? "of the host" : bytesText(double(stages[i - 1].hostBytes)));
  if (plan.encoderLength > 0)
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i].insert(rows[i].begin() + 1, i == 0 ? "encoder" : layersText(stages[i - 1].encoderLayers));
  return tableText(rows);
}

// How far the choice may be from the best; empty: less than a thousandth.
std::string cutText(const plan::PlanBudget &budget) {
  if (budget.bytes == 0 || budget.leastSeconds >= 0.999 * budget.seconds)
    return "";
  return fmt::format("--memory: there were more choices than were compared: others may take {}",
                     budget.leastSeconds == 0
                         ? "less time"
                         : fmt::format("up to {:.1f} % less", 100 * (1 - budget.leastSeconds / budget.seconds)));
}

// Layers by what they recompute and what is on the host, where some have another policy than the standard one or values there.
std::string recomputeText(const plan::Plan &plan, const std::vector<StageFacts> &stages) {
  std::string text;
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (const cost::LayerPolicy &layers : stages[stage].policies)
      text += fmt::format("  stage {}: {} {}: {}{}{}\n", stage, layers.block, layersText(layers.layers),
                          layers.policy.empty() ? "standard" : layers.policy,
                          layers.unit > 1 ? fmt::format(", in units of {}", layers.unit) : "",
                          layers.isOffloaded ? ", values on the host" : "");
  if (const std::string cut = cutText(plan.budget); !cut.empty())
    text += "  " + cut + "\n";
  return text.empty() ? "" : "\nsaved and recomputed (docs/memory.md)\n" + text;
}

// "+1.50 ms"; changes of less than a nanosecond are none.
std::string changeText(double seconds) {
  return std::abs(seconds) < 1e-9 ? "" : fmt::format("{}{}", seconds < 0 ? "-" : "+", secondsText(std::abs(seconds)));
}

// Choices that --memory had: of each block its policies, and the least time in less and in more memory.
std::string budgetText(const plan::PlanBudget &budget) {
  if (budget.bytes == 0)
    return "";
  std::vector<TableRow> policies = {{"block", "policy", "keeps", "while it runs", "time", "saved", "added"}};
  for (const plan::PlanBudget::Policy &policy : budget.policies) {
    const auto [saved, added] = budget.differenceOf(policy);
    policies.push_back({policy.block, policy.policy.empty() ? "standard" : policy.policy,
                        bytesText(double(policy.kept + policy.split)), bytesText(double(policy.frame)),
                        secondsText(policy.seconds), saved == 0 ? "" : bytesText(double(saved)), changeText(added)});
  }
  std::vector<TableRow> curve = {{"memory", "time", "more than the least", ""}};
  for (const plan::PlanBudget::Point &point : budget.curve)
    curve.push_back({bytesText(double(point.bytes)), secondsText(point.seconds),
                     fmt::format("{:.1f} %", 100 * (point.seconds / budget.curve.back().seconds - 1)),
                     point.seconds == budget.seconds ? "this plan" : ""});
  return fmt::format("\nmemory of a rank, at most {}: what a block keeps of a microbatch, and its time, by policy\n{}"
                     "\nmemory of a rank against the time of all microbatches of a step, as the plan was compiled\n{}",
                     bytesText(double(budget.bytes)), tableText(policies), tableText(curve));
}

// The stage with most room for rows of experts beyond the mean; nothing where there is none.
std::string roomText(const plan::Plan &plan) {
  const std::vector<int64_t> rooms = plan::roomBeyondMean(plan);
  const auto most = std::ranges::max_element(rooms);
  const auto of = size_t(most - rooms.begin());
  return *most == 0 ? ""
                    : fmt::format("experts: of stage {}'s {} about {} are room for more of their rows than the mean "
                                  "(--moe-rows-factor F: room for F times the mean)\n",
                                  of, bytesText(double(plan.stages[of].bytes)), bytesText(double(*most)));
}

// A column for each kind of memory that a stage has.
std::string memoryTable(const std::vector<StageFacts> &stages) {
  std::vector<std::string> kinds;
  for (const StageFacts &stage : stages)
    for (const auto &[kind, bytes] : stage.memory)
      if (std::ranges::find(kinds, kind) == kinds.end())
        kinds.push_back(kind);
  std::vector<TableRow> rows = {{"stage"}};
  rows[0].insert(rows[0].end(), kinds.begin(), kinds.end());
  for (const StageFacts &stage : stages) {
    TableRow &row = rows.emplace_back(TableRow{fmt::format("{}", rows.size() - 1)});
    for (const std::string &kind : kinds) {
      const auto found = std::ranges::find(stage.memory, kind, &std::pair<std::string, int64_t>::first);
      row.push_back(found == stage.memory.end() ? "" : bytesText(double(found->second)));
    }
  }
  return tableText(rows);
}

// The traffic that a rank of stage `index` sends; neighbours have no numbers, so that equal stages have equal texts.
std::string trafficOf(const std::vector<StageFacts> &stages, size_t index) {
  std::string text;
  for (const Traffic &one : stages[index].traffic) {
    const bool isNext = one.over == fmt::format("stage {}", index + 1),
               isBefore = index > 0 && one.over == fmt::format("stage {}", index - 1);
    text += fmt::format("    {:<14} {:>12}  over {} ({} ranks), {} times\n", one.operation, bytesText(one.bytes),
                        isNext     ? "the next stage"
                        : isBefore ? "the stage before"
                                   : one.over,
                        one.ranks, one.count);
  }
  return text;
}

// Neighbouring stages that send the same are told together.
std::string trafficText(const std::vector<StageFacts> &stages) {
  std::string text;
  for (size_t first = 0, last = 0; first < stages.size(); first = last + 1) {
    const std::string own = trafficOf(stages, first);
    for (last = first; last + 1 < stages.size() && trafficOf(stages, last + 1) == own;)
      ++last;
    if (!own.empty())
      text += fmt::format("  {}\n{}",
                          first == last ? fmt::format("stage {}", first) : fmt::format("stages {} to {}", first, last),
                          own);
  }
  return text;
}

void printText(const plan::Plan &plan, const PlanFacts &facts, const Machine &machine, const SoftwareStack &stack,
               bool isOther, const StepCost &step) {
  printLayout(plan, facts, step);
  say(stdout, "\neach rank of a stage{}\n{}",
      plan.virtualStages > 1 ? fmt::format(" ({} chunks)", plan.virtualStages) : "",
      workTable(plan, facts.stages, step));
  say(stdout, "{}", balanceText(facts.stages));
  say(stdout, "\n{}", predictionText(plan, machine, step));
  if (isOther)
    say(stdout, "\n{}", stackDifferenceText(stack, step, predict(plan, machine, {.imbalance = step.imbalance})));
  if (facts.fit)
    say(stdout, "\n{}\n{}{}", describe(*facts.fit), changesText(plan, *facts.fit),
        facts.fit->machine == machine.name
            ? ""
            : fmt::format("{} is a machine of a file: --machine FILE predicts the step on it\n", facts.fit->machine));
  say(stdout, "\nmemory by kind\n{}{}", memoryTable(facts.stages), roomText(plan));
  say(stdout, "{}{}", recomputeText(plan, facts.stages), budgetText(plan.budget));
  if (const std::string traffic = trafficText(facts.stages); !traffic.empty())
    say(stdout, "\ntraffic, sent by a rank in a step\n{}", traffic);
  say(stdout,
      "\nschedule (F forward, B backward, I input gradient, W weight gradient; the number is the microbatch)\n{}",
      facts.picture);
}

} // namespace

// With a comment that says what it is, but as CSV: other readers know no comments.
static std::string scheduleText(const plan::Plan &plan, bool isCsv) {
  const schedule::Shape shape = schedule::shapeOf(plan);
  const std::vector<schedule::Order> orders = ordersOf(plan);
  if (isCsv)
    return schedule::writeScheduleText(shape, orders, schedule::TextForm::csv);
  const std::string chunks = shape.virtualStages == 1 ? ""
                                                      : fmt::format(", {} chunks each, placement {}",
                                                                    shape.virtualStages, plan::nameOf(shape.placement));
  return fmt::format("# {}: {} stages{}; {} microbatches\n{}", plan.schedule, shape.stages, chunks, shape.microbatches,
                     schedule::writeScheduleText(shape, orders));
}

static Status printFile(const ExplainFlags &flags) {
  if (flags.machine.empty() == flags.stack.empty())
    return Status::error("--print: expected one of --machine NAME and --stack NAME, whose file is printed");
  MGC_ASSIGN(text,
             flags.machine.empty() ? stackText(flags.stack).at("--stack") : machineText(flags.machine).at("--machine"));
  say(stdout, "{}", text);
  return checkOutput();
}

Status mgc::tools::explain(const ExplainFlags &flags) {
  if (flags.print)
    return printFile(flags);
  MGC_ASSIGN(plan, plan::readPlan(flags.plan));
  MGC_TRY(plan::provePlan(plan).at(flags.plan));
  if (!flags.html.empty())
    MGC_TRY(verifyPage(flags.html, flags.plan, plan, flags.force));
  if (!flags.schedule.empty()) {
    say(stdout, "{}", scheduleText(plan, flags.schedule == "csv"));
    return checkOutput();
  }
  MGC_ASSIGN(machine,
             flags.machine.empty() ? Result<Machine>(machineOf(plan)) : findMachine(flags.machine).at("--machine"));
  MGC_ASSIGN(stack, flags.stack.empty() ? Result<SoftwareStack>(ownStack()) : findStack(flags.stack).at("--stack"));
  const StepCost step = predict(plan, machine, {stack, flags.imbalance});
  PlanFacts facts = factsOf(plan, flags.width > 0 ? flags.width : widthOfTerminal());
  if (!flags.machine.empty())
    facts.fit = fitOf(plan, machine);
  if (!flags.html.empty())
    return writeFileAtomically(flags.html, pageText(pageData(plan, facts, machine, step)));
  if (flags.json)
    say(stdout, "{}\n", factsJson(plan, facts, machine, step).dump(2));
  else
    printText(plan, facts, machine, stack, !flags.stack.empty() && flags.stack != stackNames().front(), step);
  return checkOutput();
}

void mgc::tools::sayMemory(const plan::Plan &plan) {
  if (const std::string cut = cutText(plan.budget); !cut.empty())
    say(stderr, "{}\n", cut);
  say(stderr, "{}, {}\n", plan.modelType, parametersText(parametersOf(plan)));
  auto memoryOf = [&](size_t stage) {
    return std::tuple(plan.stages[stage].bytes, plan.stages[stage].leastBytes, plan.stages[stage].hostBytes);
  };
  for (size_t first = 0, last = 0; first < plan.stages.size(); first = last + 1) {
    for (last = first; last + 1 < plan.stages.size() && memoryOf(last + 1) == memoryOf(first);)
      ++last;
    auto [bytes, least, host] = memoryOf(first);
    std::string stages = first == last ? fmt::format("stage {}", first) : fmt::format("stages {} to {}", first, last);
    say(stderr, "{}: {} a rank, {} live together at least ({:.2f} % less){}\n", stages, bytesText(double(bytes)),
        bytesText(double(least)), 100.0 * double(bytes - least) / double(bytes),
        host > 0 ? fmt::format("; {} of the host", bytesText(double(host))) : "");
  }
  say(stderr, "{}", roomText(plan));
}
