// See Explain.h.
#include "tools/explain/Explain.h"

#include "compiler/cost/PlanFacts.h"
#include "plan/Plan.h"
#include "plan/json/PlanJson.h"
#include "plan/mesh/Mesh.h"
#include "plan/prove/VerifyPlan.h"
#include "plan/prove/VerifySchedule.h"
#include "tools/process/Process.h"

#include <nlohmann/json.hpp>

using namespace mgc;
using namespace mgc::tools;

namespace {

// "1.50 MiB", "812 B".
std::string bytesText(double bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 5; ++unit)
    bytes /= 1024;
  return unit ? fmt::format("{:.2f} {}", bytes, units[unit]) : fmt::format("{:.0f} B", bytes);
}

// "1.50 M", "812".
std::string countText(double count) {
  static constexpr const char *units[] = {"", " k", " M", " G", " T", " P", " E"};
  int unit = 0;
  for (; count >= 1000 && unit < 6; ++unit)
    count /= 1000;
  return unit ? fmt::format("{:.2f}{}", count, units[unit]) : fmt::format("{:.0f}", count);
}

std::string axesText(const plan::Mesh &mesh) {
  std::vector<std::string> axes;
  for (const plan::Axis &axis : mesh.axes)
    axes.push_back(fmt::format("{} {}", axis.name, axis.size));
  return axes.empty() ? "1 rank" : fmt::format("{} = {} ranks", fmt::join(axes, " x "), mesh.worldSize());
}

// What is kept besides parameters of less than f32.
std::string precisionText(const plan::Plan &plan) {
  if (plan.dtype == plan::DType::f32)
    return "";
  return fmt::format(" with f32 masters; gradients {}", plan::nameOf(plan.gradientType));
}

void printLayout(const plan::Plan &plan, const PlanFacts &facts) {
  say(stdout, "model      {}, {} parameters, {}{}\n", plan.modelType, countText(double(facts.parameters)),
      plan::nameOf(plan.dtype), precisionText(plan));
  say(stdout, "target     {}\n", plan::describeTarget(plan));
  say(stdout, "mesh       {}\n", axesText(plan.mesh));
  say(stdout, "batch      {} sequences of {} tokens a step: {} microbatches of {} per data rank\n",
      plan.globalBatchSize, plan.sequenceLength, plan.microbatches, plan.microBatchSize);
  say(stdout, "schedule   {}{}, bubble {:.1f} % of the step\n", plan.schedule,
      plan.virtualStages > 1 ? fmt::format(" with {} chunks per stage", plan.virtualStages) : "",
      100 * facts.bubble);
  say(stdout, "optimizer  AdamW, {}\n",
      plan.zero ? fmt::format("ZeRO-1: {}moments split over the data ranks",
                              plan.dtype == plan::DType::f32 ? "" : "masters and ")
                : "replicated");
  say(stdout, "work       {}FLOP a step on all ranks\n",
      countText(facts.flops) + (facts.flops < 1000 ? " " : ""));
}

std::string layersText(const StageFacts &stage, int64_t chunks) {
  if (stage.layersBegin == stage.layersEnd)
    return "no layers";
  return fmt::format("{}layers {} to {}", chunks > 1 ? fmt::format("{} chunks from among ", chunks) : "",
                     stage.layersBegin, stage.layersEnd - 1);
}

void printStage(size_t index, const StageFacts &stage, int64_t chunks) {
  std::string layers = layersText(stage, chunks);
  say(stdout, "\nstage {}: {}; {} parameters, {}FLOP a step, idle {:.1f} %, on each of its ranks\n", index,
      layers, countText(double(stage.parameters)), countText(stage.flops) + (stage.flops < 1000 ? " " : ""),
      100 * stage.idle);
  say(stdout, "  memory   {:>12}  = {} bytes\n", bytesText(double(stage.bytes)), stage.bytes);
  say(stdout, "  at least {:>12}  = {} bytes live together\n", bytesText(double(stage.leastBytes)),
      stage.leastBytes);
  for (const auto &[kind, bytes] : stage.memory)
    say(stdout, "    {:<14} {:>12}\n", kind, bytesText(double(bytes)));
  if (stage.traffic.empty())
    return;
  say(stdout, "  traffic, sent by a rank in a step\n");
  for (const Traffic &one : stage.traffic)
    say(stdout, "    {:<14} {:>12}  over {} ({} ranks), {} times\n", one.operation, bytesText(one.bytes),
        one.over, one.ranks, one.count);
}

void printText(const plan::Plan &plan, const PlanFacts &facts) {
  printLayout(plan, facts);
  for (size_t index = 0; index < facts.stages.size(); ++index)
    printStage(index, facts.stages[index], plan.virtualStages);
  say(stdout,
      "\nschedule (F forward, B backward, I input gradient, W weight gradient; the number is the "
      "microbatch)\n{}",
      facts.picture);
}

nlohmann::json jsonOf(const StageFacts &stage) {
  nlohmann::json memory = nlohmann::json::object(), traffic = nlohmann::json::array();
  for (const auto &[kind, bytes] : stage.memory)
    memory[kind] = bytes;
  for (const Traffic &one : stage.traffic)
    traffic.push_back({{"operation", one.operation},
                       {"over", one.over},
                       {"ranks", one.ranks},
                       {"count", one.count},
                       {"bytes", one.bytes}});
  return {{"layers", {stage.layersBegin, stage.layersEnd}},
          {"bytes", stage.bytes},
          {"least_bytes", stage.leastBytes},
          {"memory", memory},
          {"parameters", stage.parameters},
          {"flops", stage.flops},
          {"traffic", traffic},
          {"idle", stage.idle}};
}

nlohmann::json jsonOf(const plan::Plan &plan, const PlanFacts &facts) {
  nlohmann::json mesh = nlohmann::json::array(), stages = nlohmann::json::array();
  for (const plan::Axis &axis : plan.mesh.axes)
    mesh.push_back({{"name", axis.name}, {"size", axis.size}});
  for (const StageFacts &stage : facts.stages)
    stages.push_back(jsonOf(stage));
  return {{"model", plan.modelType},
          {"mesh", mesh},
          {"ranks", plan.mesh.worldSize()},
          {"sequence_length", plan.sequenceLength},
          {"micro_batch_size", plan.microBatchSize},
          {"global_batch_size", plan.globalBatchSize},
          {"microbatches", plan.microbatches},
          {"schedule", plan.schedule},
          {"virtual_stages", plan.virtualStages},
          {"zero", plan.zero},
          {"target", plan::describeTarget(plan)},
          {"dtype", plan::nameOf(plan.dtype)},
          {"gradient_dtype", plan::nameOf(plan.gradientType)},
          {"parameters", facts.parameters},
          {"flops", facts.flops},
          {"bubble", facts.bubble},
          {"stages", stages}};
}

} // namespace

Status mgc::tools::explain(const ExplainFlags &flags) {
  MGC_ASSIGN(plan, plan::readPlan(flags.plan));
  MGC_TRY(plan::verifyPlan(plan).at(flags.plan));
  MGC_TRY(schedule::verifySchedule(plan).at(flags.plan));
  PlanFacts facts = factsOf(plan);
  if (flags.json)
    say(stdout, "{}\n", jsonOf(plan, facts).dump(2));
  else
    printText(plan, facts);
  return checkOutput();
}

void mgc::tools::sayMemory(const plan::Plan &plan) {
  auto memoryOf = [&](size_t stage) {
    return std::pair(plan.stages[stage].bytes, plan.stages[stage].leastBytes);
  };
  for (size_t first = 0, last = 0; first < plan.stages.size(); first = last + 1) {
    for (last = first; last + 1 < plan.stages.size() && memoryOf(last + 1) == memoryOf(first);)
      ++last;
    auto [bytes, least] = memoryOf(first);
    std::string stages =
        first == last ? fmt::format("stage {}", first) : fmt::format("stages {} to {}", first, last);
    say(stderr, "{}: {} a rank, {} live together at least ({:.2f} % less)\n", stages,
        bytesText(double(bytes)), bytesText(double(least)), 100.0 * double(bytes - least) / double(bytes));
  }
}
