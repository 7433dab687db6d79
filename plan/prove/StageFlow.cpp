// See StageFlow.h. The list is run as it stands, one step after the other, but for repeats: when the state after an
// iteration is that after an earlier one, moved on by the microbatches between them, all later iterations do the same,
// and the rest of the repeat is passed over. Later steps then run with the numbers of the iterations that were run:
// microbatch m stands for m + skipped_.
#include "plan/prove/StageFlow.h"

#include "plan/Expand.h"
#include "plan/StepScalars.h"
#include "plan/prove/Carried.h"
#include "plan/prove/RingMemory.h"
#include "plan/prove/StateWriter.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <set>

namespace mgc::plan {

namespace {

using Kind = ScheduleStep::Kind;
constexpr int64_t kMostSteps = int64_t(1) << 20; // steps run one by one
constexpr size_t kMostNumbers = size_t(1) << 24; // numbers in all states of a repeat

class StageProof {
public:
  StageProof(const Plan &plan, int64_t index, Flows &flows, Problems &problems)
      : plan_(plan), index_(index), stage_(plan.stages[index]), flows_(flows), problems_(problems), memory_(stage_),
        allocation_(stage_.addresses(), {}), nextMicrobatch_(stage_.chunks.size()), nextCall_(stage_.chunks.size()) {
    for (const Chunk &chunk : stage_.chunks)
      firstOf_.push_back(std::ranges::find_if(stage_.chunks,
                                              [&](const Chunk &other) {
                                                return other.task == chunk.task &&
                                                       other.virtualStage == chunk.virtualStage;
                                              }) -
                         stage_.chunks.begin());
    for (size_t i = 0; i < stage_.chunks.size(); ++i)
      if (stage_.chunks[i].first)
        opened_.insert(firstOf_[i]);
    for (const Region &region : stage_.regions)
      if (region.kind == "parameters" || region.kind == "optimizer" || region.kind == kHostOptimizer)
        defined_.add({region.offset, region.offset + region.bytes});
    defined_.add(stepScalars());
    for (const ScheduleStep &step : stage_.schedule)
      for (int64_t wait : step.waits)
        window_ = std::max(window_, wait);
    hasConcurrentRuns_ = std::ranges::find(stage_.chunks, Task::gradients, &Chunk::task) != stage_.chunks.end() ||
                         std::ranges::any_of(stage_.schedule, &ScheduleStep::paired);
  }

  void prove() {
    verifyRings();
    size_t next = 0;
    for (int64_t item = 0; item < static_cast<int64_t>(stage_.schedule.size()) && problems_.count() < kEnough;) {
      while (next < stage_.repeats.size() && stage_.repeats[next].end <= item)
        ++next;
      const bool isRepeat = next < stage_.repeats.size() && stage_.repeats[next].begin == item;
      const Repeat part = isRepeat ? stage_.repeats[next] : Repeat{item, item + 1, 1};
      runPart(part);
      item = part.end;
    }
    verifyEnd();
  }

private:
  static constexpr size_t kEnough = 20;

  // Rings lie in the regions that no binding to the allocation may write.
  void verifyRings() {
    std::set<int64_t> sent; // or received
    for (const ScheduleStep &step : stage_.schedule)
      if (step.kind != Kind::run && sent.insert(step.ring).second && stage_.isOnHost(stage_.rings[step.ring].offset))
        problems_.add("stage {} ring '{}' is on the host, and a message's; expected memory of the device", index_,
                      stage_.rings[step.ring].name);
    for (size_t i = 0; i < stage_.rings.size(); ++i) {
      const Ring &ring = stage_.rings[i];
      const std::string_view kind = !memory_.isTracked(static_cast<int64_t>(i)) ? "inputs"
                                    : ring.offset >= stage_.bytes               ? kHostActivations
                                                                                : "activations";
      const ByteInterval all = {ring.offset, ring.end()};
      if (memory_.isTracked(static_cast<int64_t>(i)) &&
          (ring.offset % kAlignment != 0 || ring.stride % kAlignment != 0))
        problems_.add("stage {} ring '{}': offset {} and stride {} must be multiples of {}, as kernels are told",
                      index_, ring.name, ring.offset, ring.stride, kAlignment);
      if (std::ranges::none_of(stage_.regions, [&](const Region &region) {
            return region.kind == kind && region.offset <= all.begin && all.end <= region.offset + region.bytes;
          }))
        problems_.add("stage {} ring '{}': bytes [{}, {}) do not lie in a region '{}'", index_, ring.name, all.begin,
                      all.end, kind);
    }
  }

  // --- Repeats

  void runPart(const Repeat &part) {
    std::vector<std::pair<int64_t, std::vector<int64_t>>> states; // by iteration
    size_t kept = 0;                                              // numbers in them
    const std::optional<int64_t> stride = strideOf(part);
    for (int64_t i = 0; i < part.count && problems_.count() < kEnough; ++i) {
      if (now_ > kMostSteps)
        return problems_.add(
            "stage {}: more than {} of its steps do not repeat themselves; fewer microbatches would do", index_,
            kMostSteps);
      for (int64_t item = part.begin; item < part.end; ++item)
        run(stage_.schedule[item], stage_.schedule[item].microbatch + i * stage_.schedule[item].microbatchStride);
      if (!stride || part.count - i < 3 || memory_.mostSlots() >= part.count ||
          static_cast<int64_t>(states.size()) > 3 * memory_.mostSlots() + 8 || kept > kMostNumbers)
        continue;
      std::vector<int64_t> state = stateAt(baseOf(part, i));
      const auto same = std::ranges::find(states, state, &decltype(states)::value_type::second);
      if (same == states.end()) {
        kept += state.size();
        states.emplace_back(i, std::move(state));
        continue;
      }
      const int64_t skipped = iterationsToSkip(part.count - 1 - i, i - same->first, *stride);
      skippedMicrobatches_ += skipped * *stride;
      skippedSteps_ += skipped * (part.end - part.begin);
      i += skipped;
      states.clear();
    }
  }

  // By which all microbatches of the part go on; nothing: they differ, or there are none.
  std::optional<int64_t> strideOf(const Repeat &part) const {
    std::optional<int64_t> stride;
    for (int64_t item = part.begin; item < part.end; ++item)
      if (const ScheduleStep &step = stage_.schedule[item]; step.microbatch >= 0) {
        if (stride && *stride != step.microbatchStride)
          return std::nullopt;
        stride = step.microbatchStride;
      }
    return part.count > 1 && stride && *stride > 0 ? stride : std::nullopt;
  }
  int64_t baseOf(const Repeat &part, int64_t iteration) const {
    for (int64_t item = part.begin; item < part.end; ++item)
      if (const ScheduleStep &step = stage_.schedule[item]; step.microbatch >= 0)
        return step.microbatch + iteration * step.microbatchStride - skippedMicrobatches_;
    return 0;
  }
  // As many of `left` as leave slots where they are: a multiple of the period of the states, and of that of the memory.
  int64_t iterationsToSkip(int64_t left, int64_t period, int64_t stride) const {
    const int64_t unit = std::lcm(period, memory_.period() / std::gcd(memory_.period(), stride));
    return left / unit * unit;
  }

  // The state relative to microbatch `base` and to the step that runs next.
  std::vector<int64_t> stateAt(int64_t base);
  void forgetMessages();

  // --- Steps

  void run(const ScheduleStep &step, int64_t microbatch) {
    step_ = &step;
    microbatch_ = microbatch;
    microbatch -= microbatch >= 0 ? skippedMicrobatches_ : 0;
    const bool isRun = step.kind == Kind::run;
    const bool isGradients = isRun && stage_.chunks[step.chunk].task == Task::gradients;
    id_ = {now_, !isRun ? StepStream::message : isGradients ? StepStream::gradients : StepStream::compute};
    startAfter(step);
    if (isRun)
      runChunk(step, microbatch);
    else
      transfer(step, microbatch);
    ++now_;
  }

  // A message takes all bytes of its ring: what it carries must be there, and padding is nothing.
  void transfer(const ScheduleStep &step, int64_t microbatch) {
    auto carried = carried_.find(step.ring);
    if (carried == carried_.end())
      carried = carried_.emplace(step.ring, carriedBytes(plan_, index_, step.ring, flows_)).first;
    if (step.kind == Kind::recv)
      write(step.ring, microbatch, {0, stage_.rings[step.ring].bytes});
    int64_t end = 0;
    for (ByteInterval range : carried->second.ranges()) {
      if (step.kind == Kind::send)
        read(step.ring, microbatch, range);
      else if (memory_.isTracked(step.ring))
        memory_.groupOf(step.ring).pieces.set(memory_.at(step.ring, microbatch, {end, range.begin}), {id_, {}});
      end = range.end;
    }
  }

  // Marks the work that has completed when the step starts: all that had when the step before it on its stream started,
  // that step itself if it was a run, and the same for the steps that it waits for. The second run of a pair starts
  // together with the first; after a pair, as after any run, everything before has completed, the pair's first run
  // included.
  void startAfter(const ScheduleStep &step) {
    const int64_t stream = step.kind == Kind::run ? -1 - static_cast<int64_t>(id_.stream)
                                                  : 2 * stage_.rings[step.ring].peer + (step.kind == Kind::send);
    known_ = Completed();
    if (const auto last = lastOfStream_.find(stream); last != lastOfStream_.end()) {
      known_.join(last->second.known);
      if (step.kind == Kind::run && !step.paired)
        known_.add(id_.stream, last->second.id.step);
    }
    for (int64_t wait : step.waits) {
      const Started &earlier = recent_[recent_.size() - static_cast<size_t>(wait)];
      known_.join(earlier.known);
      known_.add(earlier.id.stream, earlier.done);
    }
    const bool isFirstOfPair = &step != &stage_.schedule.back() && (&step + 1)->paired;
    lastOfStream_[stream] = {id_, id_.step, known_};
    recent_.push_back({id_, id_.step + isFirstOfPair, known_});
    if (static_cast<int64_t>(recent_.size()) > window_ + 1)
      recent_.pop_front();
  }

  void runChunk(const ScheduleStep &step, int64_t microbatch) {
    const Chunk &chunk = stage_.chunks[step.chunk];
    const int64_t calls = runCount(chunk.calls.size(), chunk.repeats),
                  end = step.callCount < 0 ? calls : step.firstCall + step.callCount;
    verifyTurn(step, chunk, calls, end);
    const ChunkFlow &flow = flows_.of(index_, step.chunk, step.firstCall, end);
    verifyContinued(step, flow, end);
    verifyFramesApart(step, flow);
    for (size_t slot = 0; slot < chunk.slots.size(); ++slot)
      for (ByteInterval range : flow.slots[slot].reads.ranges())
        read(chunk.slots[slot], microbatch, range);
    readAllocation(flow.allocation.reads);
    for (size_t slot = 0; slot < chunk.slots.size(); ++slot)
      for (ByteInterval range : flow.slots[slot].writes.ranges())
        write(chunk.slots[slot], microbatch, range);
    writeAllocation(chunk, flow.allocation.writes);
    if (chunk.task == Task::update)
      verifyUpdated(flow.allocation.writes);
  }

  // A pair of runs has a frame each; all else that both use has its order checked.
  void verifyFramesApart(const ScheduleStep &step, const ChunkFlow &flow) {
    if (step.paired)
      for (ByteInterval range : flow.frame.ranges())
        if (frameBefore_->meets(range))
          report("uses bytes [{}, {}) of the frame, some of which the other run of its pair uses", range.begin,
                 range.end);
    frameBefore_ = &flow.frame;
  }

  // Every bucket that something updates gets new values and states. A frozen one keeps its values: no task but update writes
  // parameters (verifyRegion).
  void verifyUpdated(const ByteSet &writes) {
    for (const Bucket &bucket : stage_.buckets)
      if (bucket.isFrozen())
        verifyKept(bucket, writes);
      else if (!bucket.isCounter())
        for (const State &state : bucket.states)
          if (!isGradient(state.role) && !isOfMicrobatches(state.role) &&
              !std::ranges::all_of(spansOf(plan_, bucket, state), [&](const StateSpan &part) {
                return writes.contains({part.offset, part.offset + part.bytes});
              }))
            report("does not write all of '{}' of bucket '{}'", state.name, bucket.name);
  }

  void verifyKept(const Bucket &bucket, const ByteSet &writes) {
    const State &values = *bucket.stateOf(StateRole::value);
    if (writes.meets({values.offset, values.offset + bytesOf(plan_, bucket, values)}))
      report("writes some of the values of bucket '{}', which is frozen", bucket.name);
  }

  // Gradients that flow from a part of a chunk to the next lie in the frame: no other run on the stream comes between.
  void verifyContinued(const ScheduleStep &step, const ChunkFlow &flow, int64_t end) {
    const bool follows = part_.chunk == step.chunk && part_.microbatch == microbatch_ - skippedMicrobatches_ &&
                         part_.end == step.firstCall;
    for (ByteInterval range : flow.continued.ranges())
      if (!follows || !part_.left->contains(range))
        report("reads bytes [{}, {}) of the frame, which the run before it on its stream did not leave there",
               range.begin, range.end);
    if (id_.stream == StepStream::compute)
      part_ = {step.chunk, microbatch_ - skippedMicrobatches_, end, &flow.left};
  }

  // begin, then the microbatches of each chunk in ascending order, then reduce and update; each once, with all calls.
  void verifyTurn(const ScheduleStep &step, const Chunk &chunk, int64_t calls, int64_t end) {
    int64_t &call = nextCall_[step.chunk], &next = nextMicrobatch_[firstOf_[step.chunk]];
    if (opened_.contains(firstOf_[step.chunk]) && chunk.first != (microbatch_ == 0))
      report("runs {}; expected the chunk that is first for microbatch 0, and for that alone",
             chunk.first ? "though it is first" : "though another chunk is first");
    if (step.firstCall != call)
      report("runs calls from {} on, expected from {} on", step.firstCall, call);
    else if (microbatch_ >= 0 && microbatch_ - skippedMicrobatches_ != next)
      report("comes where microbatch {} of the chunk is next: sums over microbatches are in their order",
             next + skippedMicrobatches_);
    else if (microbatch_ < 0 && next > 0)
      report("runs a second time");
    call = end == calls ? 0 : end;
    next += end == calls;
    verifyPhase(chunk.task);
  }

  void verifyPhase(Task task) {
    const int64_t phase = task == Task::begin ? 0 : task == Task::reduce ? 2 : task == Task::update ? 3 : 1;
    if (phase < phase_ || (phase == 0 && ranAny_))
      report("comes after a task that ends the step; expected begin, all microbatches, reduce, update");
    phase_ = std::max(phase_, phase);
    ranAny_ = true;
  }

  ByteInterval stepScalars() const { return scalarsAt(stage_.stepScalarsOffset, kStepScalars.size()); }
  static ByteInterval scalarsAt(int64_t offset, size_t count) {
    return {offset, offset + static_cast<int64_t>(count) * sizeInBytes(DType::f32)};
  }

  void verifyEnd() {
    if (!defined_.contains(scalarsAt(stage_.resultsOffset, kResults.size())))
      problems_.add("stage {}: nothing writes some of the {} results of the step at {}", index_, kResults.size(),
                    stage_.resultsOffset);
    for (const RingGroup &group : memory_.groups())
      for (const auto &[begin, piece] : group.pieces.parts())
        verifyWasRead(piece);
    for (size_t i = 0; i < stage_.chunks.size() && problems_.count() < kEnough; ++i) {
      const Chunk &chunk = stage_.chunks[i];
      const int64_t runs = isPerMicrobatch(chunk.task) ? plan_.microbatches : 1,
                    found = nextMicrobatch_[firstOf_[i]] + (isPerMicrobatch(chunk.task) ? skippedMicrobatches_ : 0);
      if (found != runs || nextCall_[i] != 0)
        problems_.add("stage {}: the steps run chunk '{}' for {} microbatches and {} calls, expected {} and "
                      "no calls more",
                      index_, chunk.name(), found, nextCall_[i], runs);
    }
  }

  // --- Memory of rings

  void read(int64_t ring, int64_t microbatch, ByteInterval range) {
    if (!memory_.isTracked(ring))
      return;
    const Content expected{ring, microbatch};
    bool isOther = false;
    StepId unordered;
    memory_.groupOf(ring).pieces.forEach(memory_.at(ring, microbatch, range), [&](ByteInterval, Piece &piece) {
      isOther |= piece.content != expected;
      follow(piece.writer, unordered);
      addReader(piece);
    });
    if (isOther)
      report("reads bytes [{}, {}) of '{}', which do not hold them for this microbatch", range.begin, range.end,
             stage_.rings[ring].name);
    else
      reportUnordered(unordered, "reads", fmt::format("'{}'", stage_.rings[ring].name), range);
  }

  void write(int64_t ring, int64_t microbatch, ByteInterval range) {
    if (!memory_.isTracked(ring))
      return report("writes bytes of '{}', which the runtime writes", stage_.rings[ring].name);
    StepId unordered;
    auto &pieces = memory_.groupOf(ring).pieces;
    const ByteInterval at = memory_.at(ring, microbatch, range);
    const Content content{ring, microbatch};
    bool isShared = false;
    pieces.forEach(at, [&](ByteInterval, Piece &piece) {
      followAll(piece, unordered);
      verifyWasRead(piece);
      isShared |= piece.content != content && isOfThisStep(piece);
    });
    pieces.set(at, {id_, content});
    if (isShared)
      report("writes bytes [{}, {}) of '{}', where another of its slots lies", range.begin, range.end,
             stage_.rings[ring].name);
    reportUnordered(unordered, "writes", fmt::format("'{}'", stage_.rings[ring].name), range);
  }

  // A message is received for some step, and the host has what some step reads.
  void verifyWasRead(const Piece &piece) {
    if (piece.content.ring >= 0 && piece.writer.step >= 0 && stage_.isOnHost(stage_.rings[piece.content.ring].offset) &&
        piece.computeReader < 0)
      problems_.add("stage {} step {}: copies bytes of '{}' for microbatch {} to the host that no step reads", index_,
                    piece.writer.step + skippedSteps_, stage_.rings[piece.content.ring].name,
                    piece.content.microbatch + skippedMicrobatches_);
    if (piece.content.ring >= 0 && piece.writer.step >= 0 && piece.writer.stream == StepStream::message &&
        piece.computeReader < 0 && piece.gradientsReader < 0 && piece.messageReaders.empty())
      problems_.add("stage {} step {}: receives bytes of '{}' for microbatch {} that no step reads", index_,
                    piece.writer.step + skippedSteps_, stage_.rings[piece.content.ring].name,
                    piece.content.microbatch + skippedMicrobatches_);
  }

  // --- Memory of the allocation. Only task gradients and pairs use it at the same time as other runs.

  void readAllocation(const ByteSet &reads) {
    for (ByteInterval range : reads.ranges()) {
      if (!defined_.contains(range))
        report("reads bytes [{}, {}) of the allocation, some of which nothing has written in the step", range.begin,
               range.end);
      if (!hasConcurrentRuns_)
        continue;
      StepId unordered;
      allocation_.forEach(range, [&](ByteInterval, Piece &piece) {
        follow(piece.writer, unordered);
        addReader(piece);
      });
      reportUnordered(unordered, "reads", "the allocation", range);
    }
  }

  void writeAllocation(const Chunk &chunk, const ByteSet &writes) {
    for (ByteInterval range : writes.ranges()) {
      verifyRegion(chunk, range);
      defined_.add(range);
      if (!hasConcurrentRuns_)
        continue;
      StepId unordered;
      bool isComplete = false;
      allocation_.forEach(range, [&](ByteInterval, Piece &piece) {
        followAll(piece, unordered);
        isComplete |=
            piece.gradientsReader >= 0 || (piece.writer.step >= 0 && piece.writer.stream == StepStream::gradients);
      });
      allocation_.set(range, {id_, {}});
      if (isComplete && isPerMicrobatch(chunk.task))
        report("adds to bytes [{}, {}) of the allocation, which a run of 'gradients' has completed before", range.begin,
               range.end);
      reportUnordered(unordered, "writes", "the allocation", range);
    }
  }

  // Only update writes parameters and the optimizer's state, only microbatches what is gathered and units; no step writes the step's scalars, inputs, or activations
  // except through their rings.
  void verifyRegion(const Chunk &chunk, ByteInterval range) {
    const ByteInterval scalars = stepScalars();
    if (range.begin < scalars.end && scalars.begin < range.end)
      report("writes bytes [{}, {}), which are the step's scalars", range.begin, range.end);
    for (const Region &region : stage_.regions) {
      const bool isState = region.kind == "parameters" || region.kind == "optimizer" || region.kind == kHostOptimizer ||
                           region.kind == kStaging;
      const bool isOfMicrobatches = region.kind == "gathered" || region.kind == "units" || region.kind == kTransient;
      const bool isRings = region.kind == "inputs" || region.kind == "activations" || region.kind == kHostActivations;
      if (range.begin < region.offset + region.bytes && region.offset < range.end &&
          (isRings || (isState && chunk.task != Task::update) || (isOfMicrobatches && !isPerMicrobatch(chunk.task))))
        report("writes bytes [{}, {}), which lie in the region '{}'", range.begin, range.end, region.kind);
    }
  }

  // --- Order

  void follow(StepId other, StepId &unordered) const {
    if (other.step >= 0 && other.step != id_.step && !known_.has(other.stream, other.step))
      unordered = other;
  }
  void followAll(const Piece &piece, StepId &unordered) const {
    follow(piece.writer, unordered);
    follow({piece.computeReader, StepStream::compute}, unordered);
    follow({piece.gradientsReader, StepStream::gradients}, unordered);
    for (int64_t reader : piece.messageReaders)
      follow({reader, StepStream::message}, unordered);
  }
  bool isOfThisStep(const Piece &piece) const {
    return piece.writer.step == id_.step || piece.computeReader == id_.step || piece.gradientsReader == id_.step;
  }
  void addReader(Piece &piece) const {
    if (id_.stream == StepStream::compute)
      piece.computeReader = id_.step;
    else if (id_.stream == StepStream::gradients)
      piece.gradientsReader = id_.step;
    else
      piece.messageReaders.push_back(id_.step);
  }

  void reportUnordered(StepId other, std::string_view verb, const std::string &memory, ByteInterval range) {
    if (other.step >= 0)
      report("{} bytes [{}, {}) of {} without being ordered after step {}, which uses them; a wait is missing, or the "
             "memory may not be shared",
             verb, range.begin, range.end, memory, other.step + skippedSteps_);
  }

  template <typename... Args> void report(fmt::format_string<Args...> format, Args &&...args) {
    problems_.add("stage {} step {} ({}): {}", index_, now_ + skippedSteps_, describe(),
                  fmt::format(format, std::forward<Args>(args)...));
  }
  std::string describe() const {
    if (step_->kind != Kind::run)
      return fmt::format("{} of '{}' for microbatch {}", step_->kind == Kind::send ? "send" : "recv",
                         stage_.rings[step_->ring].name, microbatch_);
    const std::string name = stage_.chunks[step_->chunk].name();
    return microbatch_ < 0 ? fmt::format("run {}", name) : fmt::format("run {} for microbatch {}", name, microbatch_);
  }

  struct Started {
    StepId id;
    int64_t done = -1; // the last run that is done when it is: of the first of a pair the second
    Completed known;   // when it started
  };

  const Plan &plan_;
  const int64_t index_;
  const StagePlan &stage_;
  Flows &flows_;
  Problems &problems_;
  RingMemory memory_;
  ByteMap<Piece> allocation_;
  ByteSet defined_;
  const ByteSet *frameBefore_ = nullptr; // the frame's defined bytes after the run before
  bool hasConcurrentRuns_ = false, ranAny_ = false;
  int64_t window_ = 1, phase_ = 0;
  int64_t skippedMicrobatches_ = 0, skippedSteps_ = 0;
  std::vector<int64_t> nextMicrobatch_, nextCall_; // by chunk; less those passed over
  // By chunk: the first in the list with its task and virtual stage, which counts the microbatches of both; those of which one
  // is Chunk::first.
  std::vector<int64_t> firstOf_;
  std::set<int64_t> opened_;
  std::map<int64_t, ByteSet> carried_; // by ring that is sent or received
  std::map<int64_t, Started> lastOfStream_;
  std::deque<Started> recent_; // the last window_ + 1
  struct {
    int64_t chunk = -1, microbatch = -1, end = 0;
    const ByteSet *left = nullptr;
  } part_; // the last run on stream compute; its microbatch less those passed over
  // The step that runs.
  const ScheduleStep *step_ = nullptr;
  int64_t microbatch_ = -1, now_ = 0;
  StepId id_;
  Completed known_;
};

// Forgets messages that no wait can name any more and no memory refers to.
void StageProof::forgetMessages() {
  std::set<int64_t> named;
  const auto name = [&](const ByteMap<Piece> &pieces) {
    for (const auto &[begin, piece] : pieces.parts()) {
      if (piece.writer.stream == StepStream::message)
        named.insert(piece.writer.step);
      named.insert(piece.messageReaders.begin(), piece.messageReaders.end());
    }
  };
  for (const RingGroup &group : memory_.groups())
    name(group.pieces);
  const auto keep = [&](int64_t message) { return message >= now_ - window_ || named.contains(message); };
  for (auto &[stream, last] : lastOfStream_)
    last.known.keepMessages(keep);
  for (Started &started : recent_)
    started.known.keepMessages(keep);
}

std::vector<int64_t> StageProof::stateAt(int64_t base) {
  forgetMessages();
  StateWriter state(base, now_);
  for (const auto &[stream, last] : lastOfStream_)
    state.know(last.known);
  for (const Started &started : recent_)
    state.know(started.known);
  state.addRings(memory_);
  if (hasConcurrentRuns_)
    state.addPieces(allocation_, {0, stage_.addresses()});
  for (ByteInterval range : defined_.ranges())
    state.add(range.begin), state.add(range.end);
  for (const auto &[stream, last] : lastOfStream_) {
    state.add(stream);
    state.add(last.known);
    state.addStep(last.id.step);
  }
  for (const Started &started : recent_) {
    state.add(static_cast<int64_t>(started.id.stream));
    state.add(started.done - started.id.step);
    state.add(started.known);
  }
  state.add(part_.chunk), state.add(part_.end), state.add(part_.microbatch - base);
  for (size_t chunk = 0; chunk < nextMicrobatch_.size(); ++chunk) {
    state.add(nextCall_[chunk]);
    const int64_t next = nextMicrobatch_[firstOf_[chunk]];
    state.add(isPerMicrobatch(stage_.chunks[chunk].task) ? next - base : next);
  }
  return state.take();
}

} // namespace

void proveStage(const Plan &plan, int64_t stage, Flows &flows, Problems &problems) {
  StageProof(plan, stage, flows, problems).prove();
}

} // namespace mgc::plan
