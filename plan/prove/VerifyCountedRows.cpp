// See VerifyCountedRows.h.
#include "plan/prove/VerifyCountedRows.h"

#include "plan/Expand.h"

#include <algorithm>

namespace mgc::plan {

namespace {

// Bytes of each slot of a ring, or of the allocation (-1): those of rows that are counted when written, and those read whole.
struct RowUses {
  ByteSet counted, whole;
};

class StageRows {
public:
  StageRows(const Plan &plan, const StagePlan &stage, Flows &flows) : plan_(plan), stage_(stage), flows_(flows) {
    for (const Region &region : stage.regions)
      if (region.kind == kTransient)
        transient_.add({region.offset, region.offset + region.bytes});
  }

  // Chunks come in any order, and what a copy carries may be known behind it: until nothing is added.
  std::map<int64_t, RowUses> uses() {
    std::map<int64_t, ByteSet> before;
    do {
      before = counted();
      for (const Chunk &chunk : stage_.chunks)
        add(chunk);
    } while (carries_ && before != counted());
    for (const ScheduleStep &step : stage_.schedule)
      if (step.kind == ScheduleStep::Kind::send)
        uses_[step.ring].whole.add({0, stage_.rings[step.ring].bytes});
    return std::move(uses_);
  }
  const ByteSet &transientProblems() const { return problems_; }

private:
  // Grows with each chunk that is added, until all is there.
  std::map<int64_t, ByteSet> counted() const {
    std::map<int64_t, ByteSet> all;
    for (const auto &[ring, uses] : uses_)
      all[ring] = uses.counted;
    return all;
  }

  void add(const Chunk &chunk) {
    ByteMap<bool> counted(stage_.addresses(), false); // bytes of transient memory that are counted now
    for (const Call &call : expandedCalls(chunk))
      if (hasHostCopies(plan_.programs[call.program]))
        carries_ = true, carry(chunk, call, counted);
      else
        add(chunk, call, counted);
  }

  void add(const Chunk &chunk, const Call &call, ByteMap<bool> &counted) {
    const ProgramFlow &flow = flows_.of(call.program, placesOf(call));
    for (size_t i = 0; i < flow.segments.size(); ++i) {
      if (static_cast<int64_t>(i) == plan_.programs[call.program].frame)
        continue;
      const Binding &at = call.segments[i];
      RowUses &uses = uses_[ringOf(chunk, at)];
      for (ByteInterval range : flow.segments[i].wholeReads.ranges())
        if (const ByteInterval read = placed(at, range); isTransient(at, read))
          counted.peek(read, [&](ByteInterval part, bool isCounted) {
            if (isCounted)
              problems_.add(meeting(part, read));
          });
        else
          uses.whole.add(read);
      for (ByteInterval range : flow.segments[i].writes.ranges())
        if (const ByteInterval written = placed(at, range); isTransient(at, written))
          counted.set(written, false);
      for (ByteInterval range : flow.segments[i].countedWrites.ranges())
        if (const ByteInterval written = placed(at, range); isTransient(at, written))
          counted.set(written, true);
        else
          uses.counted.add(written);
    }
  }

  // A copy reads no rows: what is counted at its source is so at its destination.
  void carry(const Chunk &chunk, const Call &call, ByteMap<bool> &counted) {
    for (const Instruction &instruction : plan_.programs[call.program].instructions) {
      const auto *copy = std::get_if<HostCopy>(&instruction.body);
      if (!copy) // refused
        continue;
      const Operand &source = instruction.operands[0], &target = instruction.operands[1];
      const Binding &from = call.segments[source.segment], &to = call.segments[target.segment];
      const ByteInterval read = placed(from, {source.offset, source.offset + copy->bytes}),
                         written = placed(to, {target.offset, target.offset + copy->bytes});
      ByteSet rows;
      if (isTransient(from, read))
        counted.peek(read, [&](ByteInterval part, bool isCounted) {
          if (isCounted)
            rows.add(meeting(part, read));
        });
      else
        forEachIn(uses_[ringOf(chunk, from)].counted, read,
                  [&](ByteInterval range) { rows.add(meeting(range, read)); });
      if (isTransient(to, written))
        counted.set(written, false);
      for (ByteInterval range : rows.ranges()) {
        const ByteInterval at = {range.begin - read.begin + written.begin, range.end - read.begin + written.begin};
        if (isTransient(to, at))
          counted.set(at, true);
        else
          uses_[ringOf(chunk, to)].counted.add(at);
      }
    }
  }

  template <typename Visit> static void forEachIn(const ByteSet &bytes, ByteInterval range, const Visit &visit) {
    const std::vector<ByteInterval> &all = bytes.ranges();
    for (auto at = std::ranges::upper_bound(all, range.begin, {}, &ByteInterval::end);
         at != all.end() && at->begin < range.end; ++at)
      visit(*at);
  }
  static int64_t ringOf(const Chunk &chunk, const Binding &at) { return at.slot < 0 ? -1 : chunk.slots[at.slot]; }
  static ByteInterval placed(const Binding &at, ByteInterval range) {
    return {at.offset + range.begin, at.offset + range.end};
  }
  static ByteInterval meeting(ByteInterval a, ByteInterval b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  }
  bool isTransient(const Binding &at, ByteInterval range) const { return at.slot < 0 && transient_.contains(range); }

  const Plan &plan_;
  const StagePlan &stage_;
  Flows &flows_;
  ByteSet transient_, problems_;
  bool carries_ = false; // some call copies
  std::map<int64_t, RowUses> uses_;
};

} // namespace

void verifyCountedRows(const Plan &plan, Flows &flows, Problems &problems) {
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const auto report = [&](ByteInterval range, const std::string &memory) {
      problems.add(
          "stage {}: bytes [{}, {}) of {} are read with the rows behind the last one, of which only those that "
          "there are were written",
          stage, range.begin, range.end, memory);
    };
    StageRows rows(plan, plan.stages[stage], flows);
    for (const auto &[ring, uses] : rows.uses())
      for (ByteInterval range : uses.counted.ranges())
        if (uses.whole.meets(range))
          report(range, ring < 0 ? "the allocation" : "'" + plan.stages[stage].rings[ring].name + "'");
    for (ByteInterval range : rows.transientProblems().ranges())
      report(range, "the transient memory");
  }
}

} // namespace mgc::plan
