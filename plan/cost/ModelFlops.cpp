// See ModelFlops.h.
#include "plan/cost/ModelFlops.h"

#include "plan/cost/ParameterBindings.h"
#include "plan/cost/PlanWalk.h"

#include <algorithm>

using namespace mgc;
using namespace mgc::plan;
using namespace mgc::cost;

namespace {

bool isOfVocabulary(const Parameter &parameter) {
  return parameter.dims.size() > 1 &&
         std::ranges::find(parameter.dims, kVocabularyDim, &ParameterDim::name) != parameter.dims.end();
}

// The one matrix of the vocabulary that counts: the head's, which is the last of the chain, or null.
const Parameter *headOf(const Plan &plan) {
  const Parameter *head = nullptr;
  for (const Parameter &parameter : plan.parameters)
    if (isOfVocabulary(parameter))
      head = &parameter;
  return head;
}

int64_t positionsOf(const Plan &plan, const Parameter &parameter) {
  return parameter.positions > 0 ? parameter.positions : plan.sequenceLength;
}

// Products of a position with each element, the mean over the instances: forward, the input's gradient and the parameter's. If
// the parameter is frozen, the last is not made, and the one before it only where a gradient passes.
double productsWith(const ParameterBindings &bindings, const Parameter &parameter) {
  return isFrozen(bindings.plan(), parameter) ? 1 + bindings.sharePassedByGradients(parameter) : 3;
}

// FLOPs of attention in a run of a program: of forward, and of backward as the model counts it, twice those of forward.
struct AttentionFlops {
  double forward = 0, backward = 0;
};

AttentionFlops attentionOf(const Program &program) {
  AttentionFlops flops;
  forEachInstruction(program, [&](const Instruction &instruction) {
    const auto *attention = std::get_if<Attention>(&instruction.body);
    if (!attention)
      return;
    Attention forward = *attention;
    forward.backward = false;
    (attention->backward ? flops.backward : flops.forward) += flopsOf(forward) * (attention->backward ? 2 : 1);
  });
  return flops;
}

// FLOPs of attention of all ranks in a step. Attention of forward in other chunks is computed again, and does not count.
double attentionFlops(const Plan &plan) {
  std::vector<AttentionFlops> programs;
  for (const Program &program : plan.programs)
    programs.push_back(attentionOf(program));
  double flops = 0;
  for (const StagePlan &stage : plan.stages) {
    const std::vector<int64_t> runsOfChunk = runsOfChunks(stage);
    for (size_t i = 0; i < stage.chunks.size(); ++i)
      forEachCall(stage.chunks[i], [&](const Call &call, int64_t runs) {
        const AttentionFlops &of = programs[call.program];
        const bool isForward = stage.chunks[i].task == Task::forward;
        flops += double(runsOfChunk[i] * runs) * ((isForward ? of.forward : 0) + of.backward);
      });
  }
  return flops * double(plan.mesh.worldSize() / stageCount(plan.mesh));
}

} // namespace

double mgc::cost::modelFlops(const Plan &plan) {
  const ParameterBindings bindings(plan);
  const Parameter *head = headOf(plan);
  double flops = attentionFlops(plan);
  for (const Parameter &parameter : plan.parameters)
    if (!isCounter(plan, parameter) && (&parameter == head || !isOfVocabulary(parameter)))
      flops += 2 * double(elementsOf(parameter)) * parameter.activeShare * productsWith(bindings, parameter) *
               double(positionsOf(plan, parameter) * plan.globalBatchSize);
  return flops;
}
