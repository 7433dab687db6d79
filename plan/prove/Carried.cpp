// See Carried.h.
#include "plan/prove/Carried.h"

#include "plan/Expand.h"

#include <algorithm>

namespace mgc::plan {

namespace {

using Kind = ScheduleStep::Kind;

bool isReceived(const StagePlan &stage, int64_t ring) {
  return std::ranges::any_of(stage.schedule,
                             [&](const ScheduleStep &step) { return step.kind == Kind::recv && step.ring == ring; });
}

} // namespace

ByteSet carriedBytes(const Plan &plan, int64_t index, int64_t ring, Flows &flows) {
  const StagePlan &stage = plan.stages[index];
  const auto used = isReceived(stage, ring) ? &SegmentFlow::reads : &SegmentFlow::writes;
  ByteSet values;
  for (const ScheduleStep &step : stage.schedule) {
    if (step.kind != Kind::run)
      continue;
    const Chunk &chunk = stage.chunks[step.chunk];
    const int64_t end =
        step.callCount < 0 ? runCount(chunk.calls.size(), chunk.repeats) : step.firstCall + step.callCount;
    for (size_t slot = 0; slot < chunk.slots.size(); ++slot)
      if (chunk.slots[slot] == ring)
        for (ByteInterval range : (flows.of(index, step.chunk, step.firstCall, end).slots[slot].*used).ranges())
          values.add(range);
  }
  ByteSet carried = values;
  int64_t end = 0;
  for (ByteInterval range : values.ranges()) {
    if (range.begin != aligned(end))
      carried.add({end, range.begin});
    end = range.end;
  }
  if (end < stage.rings[ring].bytes)
    carried.add({end, stage.rings[ring].bytes});
  return carried;
}

void proveCarried(const Plan &plan, Flows &flows, Problems &problems) {
  for (size_t source = 0; source < plan.stages.size(); ++source)
    for (size_t sent = 0; sent < plan.stages[source].rings.size(); ++sent) {
      const Ring &from = plan.stages[source].rings[sent];
      if (from.peer < 0 || isReceived(plan.stages[source], static_cast<int64_t>(sent)))
        continue;
      const ByteSet written = carriedBytes(plan, static_cast<int64_t>(source), static_cast<int64_t>(sent), flows);
      const std::vector<Ring> &rings = plan.stages[from.peer].rings;
      for (size_t received = 0; received < rings.size(); ++received) {
        const Ring &to = rings[received];
        if (to.peer != static_cast<int64_t>(source) || to.value != from.value ||
            !isReceived(plan.stages[from.peer], static_cast<int64_t>(received)))
          continue;
        const ByteSet read = carriedBytes(plan, from.peer, static_cast<int64_t>(received), flows);
        for (ByteInterval range : read.ranges())
          if (!written.contains(range))
            problems.add("stage {} reads bytes [{}, {}) of '{}', some of which stage {} does not write into '{}' "
                         "before it sends it",
                         from.peer, range.begin, range.end, to.name, source, from.name);
      }
    }
}

} // namespace mgc::plan
