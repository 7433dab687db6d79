// See PlanWalk.h.
#include "plan/cost/PlanWalk.h"

#include "plan/cost/PlanOrders.h"

#include <map>

using namespace mgc;
using namespace mgc::plan;

namespace {

// A chunk may run in parts: one of them has the last call.
bool runsLastCall(const Chunk &chunk, const ExpandedStep &step) {
  const int64_t calls = runCount(chunk.calls.size(), chunk.repeats);
  return step.endCall(calls) == calls && (calls == 0 || step.firstCall < calls);
}

std::vector<schedule::Step> stepsOf(const StagePlan &stage) {
  std::vector<schedule::Step> steps;
  std::map<std::pair<int64_t, int64_t>, int64_t> parts; // (chunk, microbatch) -> those so far
  cost::forEachStep(stage, [&](const ExpandedStep &step) {
    schedule::Step &out = steps.emplace_back();
    out.kind = schedule::Step::Kind(step.kind);
    if (step.kind == ExpandedStep::Kind::run)
      out.task = cost::taskOf(stage.chunks[step.chunk], step.microbatch);
    out.task.paired = step.paired;
    if (step.kind == ExpandedStep::Kind::run && step.callCount >= 0)
      out.task.part = parts[{step.chunk, step.microbatch}]++;
    out.peer = step.peer;
    out.value = step.value;
    out.microbatch = step.microbatch;
    out.bytes = step.bytes;
    out.waits = step.waits;
  });
  return steps;
}

} // namespace

std::vector<int64_t> mgc::cost::runsOfChunks(const StagePlan &stage) {
  std::vector<int64_t> runs(stage.chunks.size());
  forEachStep(stage, [&](const ExpandedStep &step) {
    if (step.kind == ExpandedStep::Kind::run && runsLastCall(stage.chunks[step.chunk], step))
      ++runs[step.chunk];
  });
  return runs;
}

int64_t mgc::cost::elementsOf(const Parameter &parameter) {
  int64_t elements = instanceCount(parameter);
  for (const ParameterDim &dim : parameter.dims)
    elements *= dim.valid;
  return elements;
}

schedule::ScheduledTask mgc::cost::taskOf(const Chunk &chunk, int64_t microbatch) {
  return {chunk.task, isPerVirtualStage(chunk.task) ? chunk.virtualStage : -1, microbatch, -1, false, chunk.first};
}

schedule::Solution mgc::cost::solutionOf(const Plan &plan) {
  schedule::Solution solution;
  solution.schedule = plan.schedule;
  solution.shape = shapeOf(plan);
  for (const StagePlan &stage : plan.stages)
    solution.stages.emplace_back().steps = stepsOf(stage);
  return solution;
}
