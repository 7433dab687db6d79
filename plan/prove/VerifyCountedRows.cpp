// See VerifyCountedRows.h.
#include "plan/prove/VerifyCountedRows.h"

#include "plan/Expand.h"

namespace mgc::plan {

namespace {

// Bytes of each slot of a ring, or of the allocation (-1): those of rows that are counted when written, and those read whole.
struct RowUses {
  ByteSet counted, whole;
};

class StageRows {
public:
  StageRows(const Plan &plan, const StagePlan &stage, Flows &flows) : plan_(plan), stage_(stage), flows_(flows) {}

  std::map<int64_t, RowUses> uses() {
    for (const Chunk &chunk : stage_.chunks)
      for (const Call &call : expandedCalls(chunk))
        add(chunk, call);
    for (const ScheduleStep &step : stage_.schedule)
      if (step.kind == ScheduleStep::Kind::send)
        uses_[step.ring].whole.add({0, stage_.rings[step.ring].bytes});
    return std::move(uses_);
  }

private:
  void add(const Chunk &chunk, const Call &call) {
    const ProgramFlow &flow = flows_.of(call.program, placesOf(call));
    for (size_t i = 0; i < flow.segments.size(); ++i) {
      if (static_cast<int64_t>(i) == plan_.programs[call.program].frame)
        continue;
      const Binding &at = call.segments[i];
      RowUses &uses = uses_[at.slot < 0 ? -1 : chunk.slots[at.slot]];
      for (ByteInterval range : flow.segments[i].wholeReads.ranges())
        uses.whole.add({at.offset + range.begin, at.offset + range.end});
      for (ByteInterval range : flow.segments[i].countedWrites.ranges())
        uses.counted.add({at.offset + range.begin, at.offset + range.end});
    }
  }

  const Plan &plan_;
  const StagePlan &stage_;
  Flows &flows_;
  std::map<int64_t, RowUses> uses_;
};

} // namespace

void verifyCountedRows(const Plan &plan, Flows &flows, Problems &problems) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const auto &[ring, uses] : StageRows(plan, plan.stages[stage], flows).uses())
      for (ByteInterval range : uses.counted.ranges())
        if (uses.whole.meets(range))
          problems.add("stage {}: bytes [{}, {}) of {} are read with the rows behind the last one, of which "
                       "only those that there are were written",
                       stage, range.begin, range.end,
                       ring < 0 ? "the allocation" : "'" + plan.stages[stage].rings[ring].name + "'");
}

} // namespace mgc::plan
