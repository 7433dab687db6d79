// See Stages.h.
#include "compiler/assemble/Stages.h"

#include "compiler/assemble/ParameterPlaces.h"
#include "compiler/schedule/FindRepeats.h"
#include "compiler/step/StateBuffers.h"
#include "compiler/step/StepBuilder.h"

#include <algorithm>

using namespace mlir;

namespace mgc {

namespace {

// The second call is the first in a later iteration, `iterations` times the strides from it to `next` on.
bool continues(const plan::Call &first, const plan::Call &next, const plan::Call &later, int64_t iterations) {
  const auto isAffine = [&](int64_t a, int64_t b, int64_t c) { return c - a == iterations * (b - a); };
  if (first.program != later.program || !isAffine(first.instance, next.instance, later.instance))
    return false;
  for (size_t i = 0; i < first.segments.size(); ++i)
    if (first.segments[i].slot != later.segments[i].slot ||
        !isAffine(first.segments[i].offset, next.segments[i].offset, later.segments[i].offset))
      return false;
  return true;
}

plan::Call withStrides(plan::Call call, const plan::Call &next) {
  call.instanceStride = next.instance - call.instance;
  for (size_t i = 0; i < call.segments.size(); ++i)
    call.segments[i].stride = next.segments[i].offset - call.segments[i].offset;
  return call;
}

// Equal layers, once.
void findRepeats(plan::Chunk &chunk) {
  const std::vector<plan::Call> all = std::move(chunk.calls);
  chunk.calls.clear();
  const auto parts = schedule::findRepeatedParts(all.size(), [&](size_t from, size_t to, size_t length) {
    return all[from].program == all[from + length].program &&
           continues(all[from], all[from + length], all[to], int64_t((to - from) / length));
  });
  for (const auto &[first, length, count] : parts) {
    const auto begin = int64_t(chunk.calls.size());
    for (size_t i = first; i < first + length; ++i)
      chunk.calls.push_back(count > 1 ? withStrides(all[i], all[i + length]) : all[i]);
    if (count > 1)
      chunk.repeats.push_back({begin, int64_t(chunk.calls.size()), count});
  }
}

class StageBuilder {
public:
  StageBuilder(const StageDecisions &stage, const StageContext &context)
      : stage_(stage.op), layouts_(stage.chunks), firstGathers_(stage.firstGathers), schedule_(stage.schedule),
        memory_(stage.memory), context_(context), places_(stage.contents) {
    for (UnitOp unit : stage_.all<UnitOp>())
      units_[unit.getBucket()] = unit;
    buckets_ = stage_.all<BucketOp>();
  }

  plan::StagePlan run() {
    addMemory();
    addStepChunk(plan::Task::begin, stage_.getBegin());
    for (size_t k = 0; k < layouts_.size(); ++k) {
      for (plan::Task task : passesOf(context_.module)) {
        const bool isOpened = task == plan::Task::forward && firstGathers_.has(int64_t(k));
        if (isOpened)
          addChunk(task, k, true);
        if (!isOpened || trainingOf(context_.module).microbatches > 1)
          addChunk(task, k, false);
      }
      addGradients(int64_t(k));
    }
    addStepChunk(plan::Task::reduce, stage_.getReduce());
    addUpdate();
    for (const schedule::PeriodicStep &step : schedule_.steps)
      out_.schedule.push_back(stepOf(step));
    out_.repeats = schedule_.repeats;
    return std::move(out_);
  }

private:
  void addMemory() {
    out_.buckets = memory_.buckets;
    addRings();
    out_.regions = memory_.regions;
    out_.bytes = memory_.bytes;
    out_.hostBytes = memory_.hostBytes;
    out_.leastBytes = memory_.leastBytes;
    out_.stepScalarsOffset = memory_.stepScalars;
    out_.resultsOffset = memory_.results;
  }

  // Adds the rings of the inputs, then those of the schedule.
  void addRings() {
    for (const auto &[data, input] : memory_.inputs) {
      ringOfData_[data] = int64_t(out_.rings.size());
      out_.inputs.push_back(input.input);
      out_.inputs.back().ring = int64_t(out_.rings.size());
      out_.rings.push_back(input.ring);
    }
    firstRing_ = int64_t(out_.rings.size());
    for (const plan::Ring &ring : schedule_.rings) {
      out_.rings.push_back(ring);
      const bool isOnHost = ring.offset >= schedule_.bytes;
      out_.rings.back().offset += isOnHost ? memory_.hostActivations - schedule_.bytes : memory_.activations;
      if (ring.slots() == 1)
        out_.rings.back().stride = 0;
    }
    for (const schedule::PeriodicStep &step : schedule_.steps)
      readUses(step.step);
  }

  // The ring that each chunk has for each kind of buffer, and where rings come from or go to.
  void readUses(const schedule::Step &step) {
    for (const auto *uses : {&step.reads, &step.writes})
      for (const schedule::BufferUse &use : *uses) {
        const int64_t ring = firstRing_ + use.buffer;
        if (step.kind == schedule::Step::Kind::run)
          ringOf_[{use.kind, step.task.chunk}] = ring;
        else
          out_.rings[ring].peer = step.peer, out_.rings[ring].value = step.value;
      }
  }

  // --- Chunks of the step's end
  struct Piece;
  // A run of a task, and of a bucket with units the one that it is for.
  struct Use {
    plan::Task task;
    int64_t unit = 0;
    bool inSecond = false, isSecondGradient = false; // its memory for gathered values, for gradients
    const Piece *piece = nullptr;                    // the piece that an update is for
  };

  plan::Binding bufferBinding(DictionaryAttr buffer, const Use &use) {
    StringRef kind = buffer.getAs<StringAttr>("kind").getValue();
    auto index = buffer.getAs<IntegerAttr>("index");
    if (kind == "result")
      return {-1, out_.resultsOffset + 4 * index.getInt()};
    if (kind == "step_scalar")
      return {-1, out_.stepScalarsOffset + (index ? 4 * index.getInt() : 0)};
    if (kind == "factor")
      return {-1, memory_.factor};
    return {-1, use.piece ? offsetOf(kind, *use.piece) : offsetOf(index.getInt(), kind, use)};
  }

  int64_t offsetOf(int64_t bucket, StringRef kind, const Use &use) {
    const plan::Bucket &of = memory_.buckets[bucket];
    const plan::State &state = *of.stateNamed(std::string_view(kind)); // verified: it has it
    if (state.role == plan::StateRole::unitValue)
      return memory_.gatheredValuesOf(bucket, use.inSecond).offset;
    if (state.role == plan::StateRole::unitGradient)
      return memory_.unitGradientOf(bucket, use.isSecondGradient).offset;
    if (isOfOneUnit(state.role) || use.unit == 0)
      return state.offset;
    const int64_t elements = of.elementsOf(state, plan::groupSize(meshOf(context_.module), of.axesOf(state)));
    return state.offset + use.unit * (elements / of.units) * plan::sizeInBytes(state.type);
  }

  // The call of a function of the step, or of one around the call of an instance.
  plan::Call stepCall(StringRef functionName, const Use &use) {
    auto function = ModuleOp(context_.module).lookupSymbol<func::FuncOp>(functionName);
    plan::Call call;
    call.program = context_.programOf.at(functionName.str());
    for (const SegmentSource &segment : context_.programs[call.program].segments)
      if (segment.kind == SegmentSource::Kind::frame)
        call.segments.push_back({-1, memory_.frameOf(use.task)});
      else if (segment.kind == SegmentSource::Kind::argument)
        call.segments.push_back(
            bufferBinding(function.getArgAttrOfType<DictionaryAttr>(segment.index, kBufferAttr), use));
      else
        call.segments.push_back(
            bufferBinding(function.getResultAttrOfType<DictionaryAttr>(segment.index, kBufferAttr), use));
    return call;
  }

  void addStepChunk(plan::Task task, StringRef functionName) {
    plan::Chunk chunk;
    chunk.task = task;
    chunk.calls.push_back(stepCall(functionName, {task}));
    addChunk(-1, std::move(chunk));
  }

  // --- Update
  // A piece with its place among the pieces of its op, and among all, of which those on the host come first.
  struct Piece {
    PiecesOp op;
    int64_t index = 0, number = 0;
    PieceSizes sizes;
    int64_t firstElement() const {
      return (int64_t(PiecesOp(op).getFirst()) + index * int64_t(PiecesOp(op).getParts())) * sizes.elementsOfPart;
    }
  };

  // The copies of the first piece from the host come first, then the update of what is on the device. The copies of a piece
  // are enqueued before the update of the one before:
  //   in 0 | on the device | in 1, update 0, out 0 | in 2, update 1, out 1 | .. | update n - 1, out n - 1
  void addUpdate() {
    plan::Chunk chunk;
    chunk.task = plan::Task::update;
    std::vector<Piece> onHost, onDevice;
    for (PiecesOp op : stage_.all<PiecesOp>())
      for (int64_t i = 0; i < int64_t(op.getCount()); ++i) {
        std::vector<Piece> &to = op.getOnHost() ? onHost : onDevice;
        to.push_back({op, i, int64_t(to.size()), sizesOf(op)});
      }
    for (Piece &piece : onDevice) // an update is of each piece once
      piece.number += std::ssize(onHost);
    const auto copyIn = [&](size_t i) {
      if (i < onHost.size())
        chunk.calls.push_back(copiesOf(onHost[i], plan::HostCopy::Direction::in));
    };
    copyIn(0);
    chunk.calls.push_back(stepCall(stage_.getUpdate(), {chunk.task}));
    for (const Piece &piece : onDevice)
      chunk.calls.push_back(updateOf(piece));
    for (size_t i = 0; i < onHost.size(); ++i) {
      copyIn(i + 1);
      chunk.calls.push_back(updateOf(onHost[i]));
      chunk.calls.push_back(copiesOf(onHost[i], plan::HostCopy::Direction::out));
    }
    addChunk(-1, std::move(chunk));
  }

  // Where the piece of a state is in its staging buffer.
  int64_t stagedAt(const Piece &piece, StringRef state) const {
    int64_t offset = memory_.staging[piece.number % std::ssize(memory_.staging)];
    for (size_t i = 0; piece.sizes.states[i] != state; ++i)
      offset += piece.sizes.bytes[i];
    return offset;
  }

  plan::Call copiesOf(const Piece &piece, plan::HostCopy::Direction direction) {
    plan::Call call;
    call.program = context_.hostCopies.ofUpdate(direction, piece.sizes.bytes);
    call.instance = piece.number;
    const plan::Bucket &bucket = memory_.buckets[PiecesOp(piece.op).getBucket()];
    for (const std::string &name : piece.sizes.states) {
      const plan::State &state = *bucket.stateNamed(name);
      const plan::Binding host = {-1, state.hostOffset + piece.firstElement() * plan::sizeInBytes(state.type)},
                          device = {-1, stagedAt(piece, name)};
      addCopy(call, direction, host, device);
    }
    return call;
  }
  static void addCopy(plan::Call &call, plan::HostCopy::Direction direction, plan::Binding host, plan::Binding device) {
    const bool isIn = direction == plan::HostCopy::Direction::in;
    call.segments.push_back(isIn ? host : device);
    call.segments.push_back(isIn ? device : host);
  }

  plan::Call updateOf(const Piece &piece) {
    plan::Call call = stepCall(PiecesOp(piece.op).getUpdate(), {plan::Task::update, 0, false, false, &piece});
    call.instance = piece.number;
    return call;
  }

  // The address of a buffer in the update of a piece.
  int64_t offsetOf(StringRef kind, const Piece &piece) {
    const plan::State &state = *memory_.buckets[PiecesOp(piece.op).getBucket()].stateNamed(std::string_view(kind));
    if (PiecesOp(piece.op).getOnHost() && llvm::is_contained(piece.sizes.states, state.name))
      return stagedAt(piece, kind);
    return state.offset + (piece.firstElement() - state.hostElements) * plan::sizeInBytes(state.type);
  }

  // A call for each part of chunk k, if it has any.
  void addGradients(int64_t k) {
    plan::Chunk chunk;
    chunk.task = plan::Task::gradients;
    chunk.virtualStage = k;
    for (ReductionOp reduction : stage_.all<ReductionOp>())
      if (int64_t(reduction.getChunk()) == k)
        chunk.calls.push_back(stepCall(reduction.getFunction(), {chunk.task}));
    if (!chunk.calls.empty())
      addChunk(k, std::move(chunk));
  }

  // --- Chunks
  void addChunk(int64_t k, plan::Chunk chunk) {
    chunkOf_[{chunk.task, k, chunk.first}] = out_.chunks.size();
    findRepeats(chunk);
    out_.chunks.push_back(std::move(chunk));
  }

  void addChunk(plan::Task task, size_t k, bool isFirst) {
    const ChunkLayout &layout = layouts_[k];
    plan::Chunk chunk;
    chunk.task = task;
    chunk.first = isFirst;
    chunk.virtualStage = int64_t(k);
    std::vector<InstanceCalls> all;
    for (const ChunkLayout::Call &call : layout.callsOf(task)) {
      if (call.function && context_.programOf.contains(func::FuncOp(call.function->function).getName().str()))
        all.push_back(callsOf({layout, k, call, chunk}));
      else
        all.emplace_back();
      all.back().recomputes = call.recomputes;
      all.back().readsMoved = !all.back().copiesIn.empty();
      all.back().staged = layout.stagedAt(call.instance);
      all.back().inSecond = memory_.isSecond(task, call.instance);
      if (isFirst)
        all.back().gathers =
            gathersOf(layout.instances()[call.instance].number, firstGathers_.of(int64_t(k), call.instance));
    }
    const size_t count = all.size();
    size_t next = 0;                   // the one whose values were gathered last
    std::vector<plan::Call> additions; // additions of sums that are made while the next instance computes
    std::vector<int64_t> &begins = callsBefore_[{task, int64_t(k), isFirst}];
    for (size_t n = 0; n < count; ++n) {
      if (n == 0 || !all[n - 1].recomputes)
        begins.push_back(int64_t(chunk.calls.size()));
      llvm::append_range(chunk.calls, std::exchange(all[n].gathers, {}));
      const bool isNextFree = n + 1 == count || all[n + 1].inSecond != all[n].inSecond;
      if (isFirst ? n == next : gathersAhead() && isNextFree && !all[n].calls.empty())
        if (next = isFirst ? nextGathers(all, n + 1) : n + 1; next < count)
          llvm::append_range(chunk.calls, std::exchange(all[next].gathers, {}));
      copyIn(all, n, chunk);
      llvm::append_range(chunk.calls, all[n].calls);
      llvm::append_range(chunk.calls, all[n].copiesOut);
      if (memory_.sumsBeside && !all[n].calls.empty())
        llvm::append_range(chunk.calls, std::exchange(additions, {}));
      llvm::append_range(chunk.calls, all[n].sums);
      llvm::append_range(additions, all[n].additions);
      if (!memory_.sumsBeside || n + 1 == count)
        llvm::append_range(chunk.calls, std::exchange(additions, {}));
    }
    begins.push_back(int64_t(chunk.calls.size()));
    addChunk(int64_t(k), std::move(chunk));
  }

  static int64_t slotOf(int64_t ring, plan::Chunk &chunk) {
    auto it = llvm::find(chunk.slots, ring);
    if (it == chunk.slots.end())
      it = chunk.slots.insert(chunk.slots.end(), ring);
    return it - chunk.slots.begin();
  }

  // A call of a function for one instance, while the slots of its chunk are collected.
  struct Caller {
    const ChunkLayout &layout;
    size_t number; // number of the layout in the stage
    const ChunkLayout::Call &call;
    plan::Chunk &chunk;
  };

  // Where values are gathered ahead, the memory of the next instance is free while this one computes: they use the two in turn.
  bool gathersAhead() const { return memory_.twice == StageMemory::Twice::aheadOfUse; }

  // The calls that gather the values that an instance reads; its own, behind those that clear its gradients; those that sum these up
  // over data ranks, and add the sums to slices.
  struct InstanceCalls {
    std::vector<plan::Call> gathers, calls, sums, additions;
    std::vector<plan::Call> copiesIn,
        copiesOut;      // copies of what is offloaded: in front of what reads it, behind what makes it
    int64_t staged = 0; // ChunkLayout::stagedAt
    bool recomputes = false, readsMoved = false, inSecond = false; // ChunkLayout::Call; its memory for gathered values
  };
  // The calls that gather units once in a step.
  std::vector<plan::Call> gathersOf(int64_t instance, const std::vector<FirstGathers::Unit> &units) {
    std::vector<plan::Call> calls;
    for (const auto &[bucket, unit] : units) {
      calls.push_back(stepCall(*units_.at(bucket).getGather(), {plan::Task::forward, unit}));
      calls.back().instance = instance;
    }
    return calls;
  }
  static size_t nextGathers(const std::vector<InstanceCalls> &all, size_t from) {
    return std::find_if(all.begin() + from, all.end(), [](const InstanceCalls &one) { return !one.gathers.empty(); }) -
           all.begin();
  }
  InstanceCalls callsOf(const Caller &caller) {
    InstanceCalls calls;
    std::map<int64_t, int64_t> read, made; // unit, by bucket
    const auto add = [&](int64_t index, std::map<int64_t, int64_t> &units) {
      if (const ParameterPlaces::Place in = places_.of(instanceOf(caller), index); units_.contains(in.bucket))
        units[in.bucket] = in.element / memory_.buckets[in.bucket].unitElements();
    };
    for (const BlockFunction::Argument &argument : caller.call.function->arguments)
      if (argument.kind == BlockFunction::ArgumentKind::parameter && !isGatheredBefore(caller, argument.index))
        add(argument.index, read);
    for (const BlockFunction::Result &result : caller.call.function->results)
      if (result.kind == BlockFunction::ResultKind::grad)
        add(result.index, made);
    const auto addUnitCall = [&](std::vector<plan::Call> &to, StringRef functionName, int64_t unit) {
      to.push_back(stepCall(functionName, {caller.call.task, unit, isSecond(caller), isSecondGradient(caller)}));
      to.back().instance = instanceOf(caller).number;
    };
    for (const auto &[bucket, unit] : read)
      if (const auto gather = units_.at(bucket).getGather())
        addUnitCall(calls.gathers, *gather, unit);
    std::erase_if(made, [&](const auto &one) { return !units_.at(one.first).getClear(); });
    for (const auto &[bucket, unit] : made)
      addUnitCall(calls.calls, *units_.at(bucket).getClear(), unit);
    calls.calls.push_back(makeCall(caller));
    if (const std::vector<ChunkLayout::Moved> moved = caller.layout.movedOf(caller.call); !moved.empty()) {
      const bool isOut = caller.call.task == plan::Task::forward;
      (isOut ? calls.copiesOut : calls.copiesIn).push_back(copiesOf(caller, moved));
    }
    for (const auto &[bucket, unit] : made)
      addUnitCall(calls.sums, *units_.at(bucket).getSum(), unit);
    for (const auto &[bucket, unit] : made)
      addUnitCall(calls.additions, *units_.at(bucket).getAccumulate(), unit);
    return calls;
  }
  // In front of the n-th call: the copies of what it reads, if they are not on their way yet, and those for the next that reads such.
  static void copyIn(std::vector<InstanceCalls> &all, size_t n, plan::Chunk &chunk) {
    llvm::append_range(chunk.calls, std::exchange(all[n].copiesIn, {}));
    for (size_t next = n + 1; next < all.size(); ++next)
      if (all[next].readsMoved) { // into a buffer that the n-th call reads it is copied behind that
        if (!all[n].readsMoved || all[next].staged != all[n].staged)
          llvm::append_range(chunk.calls, std::exchange(all[next].copiesIn, {}));
        break;
      }
  }

  int64_t slotOf(const Caller &caller, schedule::BufferKind kind) {
    return slotOf(ringOf_.at({kind, int64_t(caller.number)}), caller.chunk);
  }
  // Between the staged buffer of the instance and its place on the host.
  plan::Call copiesOf(const Caller &caller, const std::vector<ChunkLayout::Moved> &all) {
    const plan::Task task = caller.call.task;
    const int64_t slot = slotOf(caller, schedule::BufferKind::offloaded);
    plan::Call call;
    call.program = context_.hostCopies.ofActivations(task, all);
    call.instance = instanceOf(caller).number;
    for (const ChunkLayout::Moved &moved : all)
      addCopy(call, HostCopyPrograms::directionOf(task), {slot, moved.host},
              {-1, memory_.stagedOf(task) + moved.staged});
    return call;
  }
  bool isSecondGradient(const Caller &caller) const { return memory_.isSecondGradient(caller.call.instance); }
  bool isSecond(const Caller &caller) const { return memory_.isSecond(caller.call.task, caller.call.instance); }

  // Whether the values of the parameter stay where the instance's forward, or the first microbatch, has gathered them.
  bool isGatheredBefore(const Caller &caller, int64_t argument) {
    const int64_t bucket = places_.of(instanceOf(caller), argument).bucket;
    if (gatherTimeOf(buckets_[bucket]) == GatherTime::step)
      return true;
    const BlockFunction *forward = instanceOf(caller).block->functionOf(plan::Task::forward);
    return caller.call.task != plan::Task::forward && memory_.buckets[bucket].has(plan::StateRole::gatheredValue) &&
           forward && context_.programOf.contains(func::FuncOp(forward->function).getName().str());
  }

  plan::Call makeCall(const Caller &caller) {
    plan::Call call;
    call.program = context_.programOf.at(func::FuncOp(caller.call.function->function).getName().str());
    call.instance = instanceOf(caller).number;
    for (const SegmentSource &segment : context_.programs[call.program].segments)
      call.segments.push_back(segment.kind == SegmentSource::Kind::frame
                                  ? plan::Binding{-1, memory_.frameOf(caller.call.task)}
                              : segment.kind == SegmentSource::Kind::argument ? argumentBinding(caller, segment.index)
                                                                              : resultBinding(caller, segment.index));
    return call;
  }

  static const Instance &instanceOf(const Caller &caller) { return caller.layout.instances()[caller.call.instance]; }

  plan::Binding argumentBinding(const Caller &caller, size_t argument) {
    const BlockFunction::Argument &taken = caller.call.function->arguments[argument];
    func::FuncOp function = caller.call.function->function;
    if (taken.kind == BlockFunction::ArgumentKind::data)
      return {slotOf(ringOfData_.at(function.getArgAttrOfType<StringAttr>(argument, kDataAttr).str()), caller.chunk),
              0};
    if (taken.kind == BlockFunction::ArgumentKind::parameter)
      return {-1, valueOffset(caller, taken.index)};
    return inBuffer(caller, caller.layout.argument(caller.call, argument));
  }

  plan::Binding resultBinding(const Caller &caller, size_t number) {
    const BlockFunction::Result &result = caller.call.function->results[number];
    if (const std::optional<int64_t> total = result.total())
      return {-1, out_.resultsOffset + 4 * *total};
    if (result.kind == BlockFunction::ResultKind::grad)
      return {-1, gradientOffset(caller, result.index)};
    return inBuffer(caller, caller.layout.result(caller.call, number));
  }

  plan::Binding inBuffer(const Caller &caller, ChunkLayout::Offset at) {
    if (at.buffer == ChunkLayout::kFlow)
      return {-1, memory_.flow + at.offset};
    if (at.buffer == ChunkLayout::kForwardFlow)
      return {-1, memory_.forwardFlow + at.offset};
    if (at.buffer == ChunkLayout::kRecomputed)
      return {-1, memory_.recomputed + at.offset};
    if (at.buffer == ChunkLayout::kStaged)
      return {-1, memory_.stagedOf(caller.call.task) + at.offset};
    return {slotOf(caller, schedule::BufferKind(at.buffer)), at.offset};
  }

  int64_t valueOffset(const Caller &caller, int64_t argument) {
    const ParameterPlaces::Place in = places_.of(instanceOf(caller), argument);
    const plan::Bucket &bucket = memory_.buckets[in.bucket];
    return bucket.areValuesSliced() ? offsetIn(memory_.gatheredValuesOf(in.bucket, isSecond(caller)), in)
                                    : offsetIn(*bucket.stateOf(plan::StateRole::value), in);
  }
  int64_t gradientOffset(const Caller &caller, int64_t argument) {
    const ParameterPlaces::Place in = places_.of(instanceOf(caller), argument);
    const plan::Bucket &bucket = memory_.buckets[in.bucket];
    return offsetIn(bucket.hasUnitGradients() ? memory_.unitGradientOf(in.bucket, isSecondGradient(caller))
                                              : *bucket.stateOf(plan::StateRole::gradient),
                    in);
  }
  int64_t offsetIn(const plan::State &state, const ParameterPlaces::Place &in) {
    const int64_t element =
        isOfOneUnit(state.role) ? in.element % memory_.buckets[in.bucket].unitElements() : in.element;
    return state.offset + plan::sizeInBytes(state.type) * element;
  }

  // --- Schedule
  plan::ScheduleStep stepOf(const schedule::PeriodicStep &periodic) {
    using Kind = schedule::Step::Kind;
    const schedule::Step &from = periodic.step;
    plan::ScheduleStep step;
    step.kind = plan::ScheduleStep::Kind(from.kind);
    step.microbatch = from.microbatch;
    step.microbatchStride = periodic.microbatchStride;
    step.waits = from.waits;
    if (from.kind == Kind::run) {
      step.chunk = chunkOf_.at({from.task.kind, from.task.chunk, from.task.first});
      step.paired = from.task.paired;
      setCalls(from.task, step);
    } else {
      step.ring = firstRing_ + (from.kind == Kind::send ? from.reads : from.writes).front().buffer;
    }
    return step;
  }

  // Sets the calls of a run of a part: those for its instances, or the one that completes their gradients.
  void setCalls(const schedule::ScheduledTask &task, plan::ScheduleStep &step) {
    if (task.part < 0)
      return;
    step.firstCall = task.part;
    step.callCount = 1;
    auto calls = callsBefore_.find({task.kind, task.chunk, task.first});
    if (calls == callsBefore_.end())
      return;
    int64_t begin = 0, end = 0, number = 0; // instances
    for (ReductionOp reduction : stage_.all<ReductionOp>())
      if (int64_t(reduction.getChunk()) == task.chunk && number++ <= task.part) {
        begin = end;
        end += int64_t(reduction.getInstances());
      }
    step.firstCall = calls->second[begin];
    step.callCount = calls->second[end] - step.firstCall;
  }

  StageOp stage_;
  const std::vector<ChunkLayout> &layouts_;
  const FirstGathers &firstGathers_;
  const schedule::PeriodicStage &schedule_;
  const StageMemory &memory_;
  const StageContext &context_;
  const ParameterPlaces places_;
  std::map<int64_t, UnitOp> units_; // by bucket
  SmallVector<BucketOp> buckets_;
  std::map<std::string, int64_t> ringOfData_;
  std::map<std::pair<schedule::BufferKind, int64_t>, int64_t> ringOf_; // by chunk
  int64_t firstRing_ = 0;                                              // first ring of the schedule
  std::map<std::tuple<plan::Task, int64_t, bool>, int64_t> chunkOf_; // by task, chunk of the stage, plan::Chunk::first
  // For each pass that runs per microbatch: how many calls precede each instance, in the pass's order, and all calls.
  std::map<std::tuple<plan::Task, int64_t, bool>, std::vector<int64_t>> callsBefore_;
  plan::StagePlan out_;
};

} // namespace

plan::StagePlan assembleStage(const StageDecisions &stage, const StageContext &context) {
  return StageBuilder(stage, context).run();
}

} // namespace mgc
