// See FactsJson.h.
#include "tools/page/FactsJson.h"

#include "tools/page/Prediction.h"

#include <array>

using namespace mgc;
using namespace mgc::cost;
using Json = nlohmann::json;

std::vector<std::string_view> mgc::tools::termsOf(const plan::Plan &plan) {
  std::vector<std::string_view> names;
  for (const size_t term : plan::lossTermsOf(plan))
    names.push_back(plan::kResults[term]);
  return names;
}

const plan::DropChoices *mgc::tools::dropsOf(const plan::Plan &plan) {
  for (const plan::Program &program : plan.programs)
    for (const plan::Instruction &instruction : program.instructions)
      if (const auto *drops = std::get_if<plan::DropChoices>(&instruction.body))
        return drops;
  return nullptr;
}

namespace {

// [[first, one behind the last], ..]
Json jsonOf(const std::vector<LayerRange> &layers) {
  Json ranges = Json::array();
  for (const LayerRange &range : layers)
    ranges.push_back({range.begin, range.end});
  return ranges;
}

Json jsonOf(const StageFacts &stage, const StageTime &time) {
  Json memory = Json::object(), traffic = Json::array();
  for (const auto &[kind, bytes] : stage.memory)
    memory[kind] = bytes;
  for (const Traffic &one : stage.traffic)
    traffic.push_back({{"operation", one.operation},
                       {"over", one.over},
                       {"ranks", one.ranks},
                       {"count", one.count},
                       {"bytes", one.bytes}});
  Json policies = Json::array();
  for (const LayerPolicy &layers : stage.policies)
    policies.push_back({{"block", layers.block},
                        {"policy", layers.policy},
                        {"unit", layers.unit},
                        {"offloaded", layers.isOffloaded},
                        {"layers", jsonOf(layers.layers)}});
  return {{"layers", jsonOf(stage.layers)},
          {"recompute", policies},
          {"encoder_layers", jsonOf(stage.encoderLayers)},
          {"bytes", stage.bytes},
          {"least_bytes", stage.leastBytes},
          {"host_bytes", stage.hostBytes},
          {"room_beyond_mean_bytes", stage.roomBeyondMean},
          {"memory", memory},
          {"parameters", stage.parameters},
          {"flops", stage.flops},
          {"attention_shares", stage.attentionShares},
          {"traffic", traffic},
          {"idle", time.idle}};
}

// Null without a budget. Bytes that a policy saves, and seconds that it adds, are those against what saves most for backward.
Json jsonOf(const plan::PlanBudget &budget) {
  if (budget.bytes == 0)
    return nullptr;
  Json policies = Json::array(), curve = Json::array();
  for (const plan::PlanBudget::Policy &policy : budget.policies) {
    const auto [saved, added] = budget.differenceOf(policy);
    policies.push_back({{"block", policy.block},
                        {"policy", policy.policy},
                        {"kept", policy.kept},
                        {"split", policy.split},
                        {"frame", policy.frame},
                        {"seconds", policy.seconds},
                        {"bytes_saved", saved},
                        {"seconds_added", added}});
  }
  for (const plan::PlanBudget::Point &point : budget.curve)
    curve.push_back({{"bytes", point.bytes}, {"seconds", point.seconds}});
  return {{"bytes", budget.bytes},
          {"seconds", budget.seconds},
          {"least_seconds", budget.leastSeconds > 0 ? Json(budget.leastSeconds) : Json()},
          {"policies", policies},
          {"curve", curve}};
}

} // namespace

nlohmann::json mgc::tools::factsJson(const plan::Plan &plan, const PlanFacts &facts, const Machine &machine,
                                     const StepCost &step) {
  Json mesh = Json::array(), stages = Json::array();
  const plan::DropChoices *drops = dropsOf(plan);
  for (const plan::Axis &axis : plan.mesh.axes)
    mesh.push_back({{"name", axis.name}, {"size", axis.size}});
  for (size_t stage = 0; stage < facts.stages.size(); ++stage)
    stages.push_back(jsonOf(facts.stages[stage], step.stages[stage]));
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
          {"parameters", facts.parameters.all},
          {"active_parameters", facts.parameters.active},
          {"trained_parameters", facts.parameters.trained},
          {"loss_terms", termsOf(plan)},
          {"expert_capacity", drops ? Json(drops->capacity) : Json()},
          {"flops", facts.flops},
          {"prediction", predictionJson(machine, step)},
          {"fits", facts.fit ? fitJson(plan, *facts.fit) : Json()},
          {"budget", jsonOf(plan.budget)},
          {"stages", stages}};
}
