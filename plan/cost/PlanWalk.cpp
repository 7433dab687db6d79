// See PlanWalk.h.
#include "plan/cost/PlanWalk.h"

using namespace mgc;
using namespace mgc::plan;

namespace {

// A chunk may run in parts: one of them has the last call.
bool runsLastCall(const Chunk &chunk, const ScheduleStep &step) {
  const int64_t calls = runCount(chunk.calls.size(), chunk.repeats);
  return step.endCall(calls) == calls && (calls == 0 || step.firstCall < calls);
}

} // namespace

std::vector<int64_t> mgc::cost::runsOfChunks(const StagePlan &stage) {
  std::vector<int64_t> runs(stage.chunks.size());
  forEachStep(stage, [&](const ScheduleStep &step, int64_t count) {
    if (step.kind == ScheduleStep::Kind::run && runsLastCall(stage.chunks[step.chunk], step))
      runs[step.chunk] += count;
  });
  return runs;
}

int64_t mgc::cost::elementsOf(const Parameter &parameter) {
  int64_t elements = instanceCount(parameter);
  for (const ParameterDim &dim : parameter.dims)
    elements *= dim.valid;
  return elements;
}
