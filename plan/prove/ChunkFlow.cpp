// See ChunkFlow.h.
#include "plan/prove/ChunkFlow.h"

#include "plan/Expand.h"

#include <algorithm>
#include <utility>

namespace mgc::plan {

namespace {

constexpr int64_t kNoCall = -2, kBeforePart = -1; // no call; the calls before those of a run of some

class ChunkFlowBuilder {
public:
  ChunkFlowBuilder(const Plan &plan, int64_t stage, const Chunk &chunk, Flows &flows, Problems &problems)
      : plan_(plan), index_(stage), stage_(plan.stages[stage]), chunk_(chunk), flows_(flows), problems_(problems),
        allocation_(stage_.addresses(), kNoCall), transient_(stage_) {
    for (int64_t ring : chunk.slots)
      slots_.emplace_back(stage_.rings[ring].bytes, kNoCall);
    out_.slots.resize(chunk.slots.size());
    for (const Region &region : stage_.regions)
      if (region.kind == "frame")
        frame_.add({region.offset, region.offset + region.bytes});
      else if (region.kind == "units")
        units_.add({region.offset, region.offset + region.bytes});
      else if (region.kind == "gradients" && isPerMicrobatch(chunk.task))
        sums_.add({region.offset, region.offset + region.bytes});
    for (const ByteSet *scratch : {&frame_, &units_}) // parts of the map are inside of it or outside
      for (ByteInterval range : scratch->ranges())
        allocation_.forEach(range, [](ByteInterval, int64_t) {});
  }

  // before: transient memory behind the calls before `first`; null: they were not followed, as where parts come in another order.
  ChunkFlow build(int64_t first, int64_t end, const TransientMemory *before) {
    first_ = first;
    if (before)
      transient_ = *before;
    if (first > 0)
      for (ByteInterval range : frame_.ranges())
        allocation_.set(range, kBeforePart);
    int64_t number = 0;
    forEachRun(chunk_.calls.size(), chunk_.repeats, [&](int64_t call, int64_t iteration) {
      if (number >= first && number < end)
        run(inIteration(chunk_.calls[call], iteration), number);
      ++number;
    });
    for (size_t i = 0; i < slots_.size(); ++i)
      addWrites(slots_[i], out_.slots[i].writes);
    addWrites(allocation_, out_.allocation.writes);
    allocation_.peek({0, allocation_.bytes()}, [&](ByteInterval range, int64_t writer) {
      if (writer == current_ && writer >= 0 && frame_.meets(range))
        out_.left.add(range);
    });
    const ByteSet written = transient_.written();
    for (ByteInterval range : written.ranges())
      out_.left.add(range);
    if (const std::optional<int64_t> lost = transient_.unread(); lost && number <= end)
      problems_.add("stage {} chunk {}: call {} writes bytes of the transient memory that no call of the run reads",
                    index_, chunk_.name(), *lost);
    return std::move(out_);
  }
  const TransientMemory &transient() const { return transient_; }

private:
  void run(const Call &call, int64_t number) {
    const Program &program = plan_.programs[call.program];
    const ProgramFlow &flow = flows_.of(call.program, placesOf(call));
    const bool isUnit = isOfUnit(stage_, call);
    isLink_ = !isUnit && touchesFlow(call, program, flow);
    if (isLink_)
      before_ = std::exchange(current_, number);
    verifyApart(call, program, flow);
    verifyFrame(call, program, number);
    verifySums(call, program, flow, number);
    for (size_t i = 0; i < flow.segments.size(); ++i)
      if (static_cast<int64_t>(i) != program.frame)
        for (ByteInterval range : flow.segments[i].reads.ranges())
          read(call.segments[i], range, program, number);
    for (size_t i = 0; i < flow.segments.size(); ++i)
      for (ByteInterval range : flow.segments[i].writes.ranges())
        write(call.segments[i], range, program, number);
    if (isUnit)
      forgetUnits(call, flow);
    if (program.frame >= 0) // no later call may read the frame's contents
      contentsOf(call.segments[program.frame])
          .set(placed(call.segments[program.frame], {0, program.segmentBytes[program.frame]}), kNoCall);
  }

  void verifyFrame(const Call &call, const Program &program, int64_t number) {
    if (program.frame < 0)
      return;
    const Binding &binding = call.segments[program.frame];
    const ByteInterval at = placed(binding, {0, program.segmentBytes[program.frame]});
    if (binding.slot >= 0 || !isInFrame(binding, at, program, number))
      problems_.add("stage {} chunk {} call {} ('{}'): binds its frame to bytes [{}, {}) of slot {}, expected bytes of "
                    "the allocation in the region 'frame'",
                    index_, chunk_.name(), number, program.name, at.begin, at.end, binding.slot);
  }

  // Each microbatch adds to a gradient: what is written there has been read.
  void verifySums(const Call &call, const Program &program, const ProgramFlow &flow, int64_t number) {
    for (size_t i = 0; i < flow.segments.size(); ++i)
      for (ByteInterval range : flow.segments[i].writes.ranges())
        if (const ByteInterval at = placed(call.segments[i], range);
            call.segments[i].slot < 0 && sums_.meets(at) && !flow.segments[i].reads.contains(range))
          problems_.add("stage {} chunk {} call {} ('{}'): writes gradients, bytes [{}, {}), without adding to what is "
                        "there",
                        index_, chunk_.name(), number, program.name, at.begin, at.end);
  }

  ByteMap<int64_t> &contentsOf(const Binding &binding) { return binding.slot < 0 ? allocation_ : slots_[binding.slot]; }
  static ByteInterval placed(const Binding &binding, ByteInterval range) {
    return {binding.offset + range.begin, binding.offset + range.end};
  }

  void read(const Binding &binding, ByteInterval range, const Program &program, int64_t number) {
    const ByteInterval at = placed(binding, range);
    const bool isFrame = isInFrame(binding, at, program, number);
    if (isFrame)
      out_.frame.add(at);
    if (isInUnits(binding, at, program, number))
      return readUnits(at, program, number);
    if (isInTransient(binding, at, program, number))
      return readTransient(at, program, number);
    bool isStale = false;
    contentsOf(binding).peek(at, [&](ByteInterval part, int64_t writer) {
      const ByteInterval inside = {std::max(part.begin, at.begin), std::min(part.end, at.end)};
      if (isFrame && writer == kBeforePart && before_ < 0)
        out_.continued.add(inside);
      else if (isFrame)
        isStale |= writer < before_;
      else if (writer == kNoCall)
        readsOf(binding).add(inside);
    });
    if (isStale)
      problems_.add("stage {} chunk {} call {} ('{}'): reads bytes [{}, {}) of the frame, which the call before it "
                    "did not write",
                    index_, chunk_.name(), number, program.name, at.begin, at.end);
  }

  void write(const Binding &binding, ByteInterval range, const Program &program, int64_t number) {
    const ByteInterval at = placed(binding, range);
    if (isInTransient(binding, at, program, number))
      return writeTransient(at, program, number);
    if (isInFrame(binding, at, program, number) || isInUnits(binding, at, program, number))
      out_.frame.add(at);
    contentsOf(binding).set(at, number);
  }

  // A gradient that was added to a slice is of no use: only what the next clear writes is defined.
  void forgetUnits(const Call &call, const ProgramFlow &flow) {
    for (size_t i = 0; i < flow.segments.size(); ++i)
      for (ByteInterval range : flow.segments[i].reads.ranges())
        if (const ByteInterval at = placed(call.segments[i], range); call.segments[i].slot < 0 && units_.contains(at))
          allocation_.set(at, kNoCall);
  }

  // Gradients of units are made and added to slices within a run.
  void readUnits(ByteInterval at, const Program &program, int64_t number) {
    out_.frame.add(at);
    bool isUndefined = false;
    allocation_.peek(at, [&](ByteInterval, int64_t writer) { isUndefined |= writer == kNoCall; });
    if (isUndefined)
      problems_.add("stage {} chunk {} call {} ('{}'): reads bytes [{}, {}) of the units, which no call of the run has "
                    "written",
                    index_, chunk_.name(), number, program.name, at.begin, at.end);
  }
  bool isInUnits(const Binding &binding, ByteInterval at, const Program &program, int64_t number) {
    if (binding.slot >= 0 || !units_.meets(at))
      return false;
    if (!units_.contains(at) || !isPerMicrobatch(chunk_.task))
      problems_.add("stage {} chunk {} call {} ('{}'): uses bytes [{}, {}), some of them of the units", index_,
                    chunk_.name(), number, program.name, at.begin, at.end);
    return true;
  }

  // --- Transient memory lives while a chunk runs, which may be in parts

  // Whether the call reads or writes bytes of the frame that are not its own: it is a link of what flows between instances.
  bool touchesFlow(const Call &call, const Program &program, const ProgramFlow &flow) const {
    for (size_t i = 0; i < flow.segments.size(); ++i)
      if (call.segments[i].slot < 0 && static_cast<int64_t>(i) != program.frame)
        for (const ByteSet *bytes : {&flow.segments[i].reads, &flow.segments[i].writes})
          for (ByteInterval range : bytes->ranges())
            if (frame_.meets(placed(call.segments[i], range)))
              return true;
    return false;
  }
  void readTransient(ByteInterval at, const Program &program, int64_t number) {
    out_.frame.add(at);
    const TransientMemory::Read read = transient_.read(at, first_);
    for (ByteInterval range : read.earlier.ranges())
      out_.continued.add(range);
    if (read.isUndefined)
      problems_.add("stage {} chunk {} call {} ('{}'): reads bytes [{}, {}) of the transient memory, which no call of "
                    "the run before it has written",
                    index_, chunk_.name(), number, program.name, at.begin, at.end);
  }
  void writeTransient(ByteInterval at, const Program &program, int64_t number) {
    out_.frame.add(at);
    if (const std::optional<int64_t> lost = transient_.write(at, number))
      problems_.add(
          "stage {} chunk {} call {} ('{}'): writes bytes [{}, {}) of the transient memory, where call {} has "
          "written what no call has read",
          index_, chunk_.name(), number, program.name, at.begin, at.end, *lost);
  }
  bool isInTransient(const Binding &binding, ByteInterval at, const Program &program, int64_t number) {
    if (binding.slot >= 0 || !transient_.bytes().meets(at))
      return false;
    if (!transient_.bytes().contains(at) || !isPerMicrobatch(chunk_.task))
      problems_.add("stage {} chunk {} call {} ('{}'): uses bytes [{}, {}), some of them of the transient memory{}",
                    index_, chunk_.name(), number, program.name, at.begin, at.end,
                    transient_.bytes().contains(at) ? ", which tasks of a microbatch alone use" : " and some not");
    return true;
  }

  // Whole, or not at all; and never for a task that runs concurrently with the frame's tasks.
  bool isInFrame(const Binding &binding, ByteInterval at, const Program &program, int64_t number) {
    if (binding.slot >= 0 || !frame_.meets(at))
      return false;
    if (!frame_.contains(at) || chunk_.task == Task::gradients)
      problems_.add("stage {} chunk {} call {} ('{}'): uses bytes [{}, {}), some of them of the frame{}", index_,
                    chunk_.name(), number, program.name, at.begin, at.end,
                    frame_.contains(at) ? ", which the runs beside it use" : " and some not");
    return true;
  }

  ByteSet &readsOf(const Binding &binding) {
    return binding.slot < 0 ? out_.allocation.reads : out_.slots[binding.slot].reads;
  }

  // Other segments than those of one place have no byte in common that is written.
  void verifyApart(const Call &call, const Program &program, const ProgramFlow &flow) {
    for (size_t i = 0; i < flow.segments.size(); ++i)
      for (size_t j = 0; j < flow.segments.size(); ++j)
        if (i != j && call.segments[i].slot == call.segments[j].slot &&
            meet(call, flow.segments[i].writes, i, flow.segments[j].reads, j))
          overlap(call, program, i, j);
        else if (i < j && call.segments[i].slot == call.segments[j].slot &&
                 meet(call, flow.segments[i].writes, i, flow.segments[j].writes, j))
          overlap(call, program, i, j);
  }
  static bool meet(const Call &call, const ByteSet &a, size_t i, const ByteSet &b, size_t j) {
    const int64_t shift = call.segments[i].offset - call.segments[j].offset;
    return std::ranges::any_of(a.ranges(),
                               [&](ByteInterval range) { return b.meets({range.begin + shift, range.end + shift}); });
  }
  void overlap(const Call &call, const Program &program, size_t i, size_t j) {
    problems_.add("stage {} chunk {}: a call of '{}' binds segments '{}' at {} and '{}' at {}, which overlap in bytes "
                  "that the program writes",
                  index_, chunk_.name(), program.name, program.segments[i], call.segments[i].offset,
                  program.segments[j], call.segments[j].offset);
  }

  // Leaves out the frame: no later run may read what a run left in it.
  void addWrites(const ByteMap<int64_t> &contents, ByteSet &writes) const {
    contents.peek({0, contents.bytes()}, [&](ByteInterval range, int64_t writer) {
      if (writer != kNoCall && !(&contents == &allocation_ && (frame_.meets(range) || units_.meets(range))))
        writes.add(range);
    });
  }

  const Plan &plan_;
  int64_t index_;
  const StagePlan &stage_;
  const Chunk &chunk_;
  Flows &flows_;
  Problems &problems_;
  ByteMap<int64_t> allocation_; // the call that wrote last
  std::vector<ByteMap<int64_t>> slots_;
  TransientMemory transient_;
  ByteSet frame_, units_, sums_;       // sums_: the gradients, to which a microbatch adds
  int64_t before_ = -1, current_ = -1; // links before this one, and the last
  bool isLink_ = false;
  int64_t first_ = 0;
  ChunkFlow out_;
};

} // namespace

std::vector<int64_t> placesOf(const Call &call) {
  std::vector<int64_t> places(call.segments.size());
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = std::ranges::find(call.segments, call.segments[i]) - call.segments.begin();
  return places;
}

const ProgramFlow &Flows::of(int64_t program, const std::vector<int64_t> &place) {
  const auto found = programs_.find({program, place});
  if (found != programs_.end())
    return found->second;
  return programs_.emplace(std::pair(program, place), flowOf(plan_, plan_.programs[program], place, problems_))
      .first->second;
}

const ChunkFlow &Flows::of(int64_t stage, int64_t chunk, int64_t first, int64_t end) {
  const auto key = std::tuple(stage, chunk, first, end);
  if (const auto found = chunks_.find(key); found != chunks_.end())
    return found->second;
  ChunkFlowBuilder builder(plan_, stage, plan_.stages[stage].chunks[chunk], *this, problems_);
  const auto before = left_.find({stage, chunk, first});
  ChunkFlow &flow =
      chunks_.emplace(key, builder.build(first, end, first > 0 && before != left_.end() ? &before->second : nullptr))
          .first->second;
  if (!builder.transient().bytes().ranges().empty())
    left_.insert_or_assign({stage, chunk, end}, builder.transient());
  return flow;
}

} // namespace mgc::plan
