// See VerifyBucketUse.h.
#include "plan/prove/VerifyBucketUse.h"

#include "plan/Expand.h"
#include "plan/mesh/Mesh.h"
#include "plan/prove/Bytes.h"
#include "plan/prove/VerifyOffload.h"
#include "plan/prove/VerifyUnits.h"
#include "plan/prove/VerifyUses.h"

#include <fmt/ranges.h>
#include <map>
#include <set>

namespace mgc::plan {

namespace {

using Places = std::set<std::pair<int64_t, int64_t>>; // offset, bytes

// The regions that hold states.
ByteSet ownedBytes(const StagePlan &stage) {
  ByteSet owned;
  for (const Region &region : stage.regions)
    if (region.kind == "parameters" || region.kind == "gathered" || region.kind == "gradients" ||
        region.kind == "optimizer" || region.kind == kHostOptimizer)
      owned.add({region.offset, region.offset + region.bytes});
  return owned;
}

// The places in the allocation itself that the calls of each task bind.
std::map<Task, Places> boundPlaces(const Plan &plan, const StagePlan &stage) {
  std::map<Task, Places> bound;
  for (const ScheduleStep &step : stage.schedule) {
    if (step.kind != ScheduleStep::Kind::run || step.microbatch >= 0)
      continue;
    const Chunk &chunk = stage.chunks[step.chunk];
    for (const Call &call : expandedCalls(chunk))
      for (size_t i = 0; i < call.segments.size(); ++i)
        if (call.segments[i].slot < 0)
          bound[chunk.task].insert({call.segments[i].offset, plan.programs[call.program].segmentBytes[i]});
  }
  return bound;
}

void checkBucket(const Plan &plan, int64_t stage, const Bucket &bucket, std::map<Task, Places> &bound,
                 Problems &problems) {
  if (bucket.isFrozen())
    return;
  const auto check = [&](Task task, const State &state) {
    const int64_t bytes = bytesOf(plan, bucket, state);
    if (bytes > 0 && !bound[task].contains({state.offset, bytes}))
      problems.add("stage {} bucket {}: '{}' at {} in {} bytes is bound by no call of {}", stage, bucket.name,
                   state.name, state.offset, bytes, nameOf(task));
  };
  bound[Task::reduce].insert(bound[Task::gradients].begin(),
                             bound[Task::gradients].end()); // either completes it
  check(Task::begin, *bucket.stateOf(bucket.hasUnitGradients() ? StateRole::gradientSlice : StateRole::gradient));
  // The norm reads all gradients, but no load: where none is pending, no call needs it before the update, which leaves counters
  // alone.
  for (const State &state : bucket.states)
    if (isGradient(state.role) && !isOfMicrobatches(state.role) && (!bucket.hasLoad() || bucket.isReduced()))
      check(Task::reduce, state);
  if (bucket.isCounter())
    return;
  if (isOffloaded(bucket))
    return; // verifyOffload
  check(Task::update, *bucket.completeGradient());
  for (const State &state : bucket.states)
    if (!isGradient(state.role) && !isOfMicrobatches(state.role))
      check(Task::update, state);
}

// All that a step's end binds in the regions of state is a state: of other bytes no checkpoint and no copy of a device knows.
void checkBound(const Plan &plan, int64_t index, const std::map<Task, Places> &bound, Problems &problems) {
  const StagePlan &stage = plan.stages[index];
  Places states;
  std::vector<ByteInterval> inPieces; // states that an update in pieces binds
  for (const Bucket &bucket : stage.buckets)
    for (const State &state : bucket.states)
      for (const StateSpan &part : spansOf(plan, bucket, state)) {
        states.insert({part.offset, part.bytes});
        if (isOffloaded(bucket))
          inPieces.push_back({part.offset, part.offset + part.bytes});
      }
  const ByteSet owned = ownedBytes(stage);
  for (const auto &[task, places] : bound)
    for (const auto &[offset, bytes] : places)
      if (bytes > 0 && owned.meets({offset, offset + bytes}) && !states.contains({offset, bytes}) &&
          !(task == Task::update && std::ranges::any_of(inPieces, [&](const ByteInterval &state) {
              return state.begin <= offset && offset + bytes <= state.end;
            })))
        problems.add("stage {}: {} binds bytes [{}, {}), which are no state of a bucket", index, nameOf(task), offset,
                     offset + bytes);
}

// --- Collectives -------------------------------------------------------------------------------------------

// A buffer of a bucket in the rank's memory, with the type of its elements.
struct TypedBuffer {
  std::string name;
  int64_t begin = 0, end = 0;
  const State *state = nullptr;
  const Bucket *bucket = nullptr;
};

void addBuffer(const Plan &plan, const Bucket &bucket, const State &state, std::vector<TypedBuffer> &buffers) {
  for (const StateSpan &part : spansOf(plan, bucket, state))
    buffers.push_back({bucket.name + "." + state.name, part.offset, part.offset + part.bytes, &state, &bucket});
}

// Buffers of all states.
std::vector<TypedBuffer> buffersOf(const Plan &plan, const StagePlan &stage) {
  std::vector<TypedBuffer> buffers;
  for (const Bucket &bucket : stage.buckets)
    for (const State &state : bucket.states)
      addBuffer(plan, bucket, state, buffers);
  return buffers;
}

// The unit that each call of a microbatch gathers or sums up. A sum is of the unit to whose slice it is added behind.
std::vector<std::optional<UnitSlice>> unitsOf(const Plan &plan, const Units &units, const std::vector<Call> &calls) {
  std::vector<std::optional<UnitSlice>> found(calls.size());
  std::map<UnitBytes, UnitSlice> sums; // by their memory, those that are added later
  for (size_t c = calls.size(); c-- > 0;) {
    std::vector<UnitBytes> bound;
    for (size_t i = 0; i < calls[c].segments.size(); ++i)
      if (calls[c].segments[i].slot < 0)
        bound.push_back({calls[c].segments[i].offset, plan.programs[calls[c].program].segmentBytes[i]});
    for (const UnitBytes &bytes : bound)
      if (const auto slice = units.sliceAt(bytes))
        found[c] = slice;
    for (const UnitBytes &bytes : bound)
      if (found[c] && found[c]->role == StateRole::gradientSlice && units.isSum(bytes, found[c]->unit))
        sums[bytes] = *found[c];
      else if (const auto sum = sums.find(bytes); sum != sums.end() && !found[c])
        found[c] = sum->second;
  }
  return found;
}

// The slices of the unit that a call of a microbatch is for, and the memory of the whole unit, which other units have too.
std::vector<TypedBuffer> buffersOf(const Plan &plan, const StagePlan &stage, const std::optional<UnitSlice> &slice) {
  std::vector<TypedBuffer> buffers;
  if (slice)
    for (const Bucket &bucket = stage.buckets[slice->unit.bucket]; const State &state : bucket.states)
      if (state.role == slice->role || isWholeOf(state.role, slice->role) ||
          (state.role == StateRole::unitSum && slice->role == StateRole::gradientSlice))
        addBuffer(plan, bucket, state, buffers);
  return buffers;
}

// The axes over which the state is gathered or scattered. Of a state that is made of slices, or scattered to some, these are the next
// ones along which it is cut; of one that gives the slices, or is made by scattering, the last ones.
const Axes &axesOfCollective(const TypedBuffer &buffer, bool isOfSlices) {
  const Bucket &bucket = *buffer.bucket;
  const bool isOuter = isOfSlices ? isOfUpdate(buffer.state->role) && !bucket.outerAxes.empty() : buffer.state->sliced;
  return isOuter ? bucket.outerAxes : bucket.shardAxes;
}

// The axes over which the gradients of a bucket are all-reduced at the end of a step: those along which ranks have parts of the sum that
// they neither share out nor have summed up before.
std::set<std::string> axesOfSums(const Bucket &bucket) {
  std::set<std::string> axes(bucket.dataAxes.begin(), bucket.dataAxes.end());
  for (const std::string &axis : bucket.axesOfUpdate())
    axes.erase(axis);
  axes.insert(bucket.reduceAxes.begin(), bucket.reduceAxes.end());
  return axes;
}

// A collective takes a bucket's numbers for what they are: sums of f32 taken for bf16 are right only for small counts. What gathers slices
// or makes them does so in the order of the ranks that have them.
void checkCollectives(const Plan &plan, int64_t index, const Units &units, Problems &problems) {
  const StagePlan &stage = plan.stages[index];
  const std::vector<TypedBuffer> ofStates = buffersOf(plan, stage);
  std::vector<TypedBuffer> buffers; // buffers that a call may work on
  std::map<const Bucket *, std::set<std::string>> summed;
  const auto check = [&](const Chunk &chunk, const Program &program, size_t i, const Collective &collective,
                         int64_t offset, bool isSource) {
    for (const TypedBuffer &buffer : buffers) {
      if (offset < buffer.begin || buffer.end <= offset)
        continue;
      if (buffer.state->type != collective.type)
        problems.add("stage {} chunk {}: '{}' takes {} for {}, expected {}", index, chunk.name(),
                     program.instructions[i].label, buffer.name, nameOf(collective.type), nameOf(buffer.state->type));
      if (collective.kind == Collective::Kind::allReduce && isGradient(buffer.state->role)) {
        const std::set<std::string> expected = axesOfSums(*buffer.bucket);
        for (const std::string &axis : primitiveAxes(plan.mesh, collective.axes)) {
          summed[buffer.bucket].insert(axis);
          if (!expected.contains(axis))
            problems.add("stage {} chunk {}: '{}' sums {} over [{}], expected some of [{}]", index, chunk.name(),
                         program.instructions[i].label, buffer.name, fmt::join(collective.axes, ", "),
                         fmt::join(expected, ", "));
        }
      }
      const bool gathers = collective.kind == Collective::Kind::allGather;
      if (!gathers && collective.kind != Collective::Kind::reduceScatter)
        continue;
      const Axes &expected = axesOfCollective(buffer, gathers == isSource);
      if (primitiveAxes(plan.mesh, collective.axes) != expected)
        problems.add("stage {} chunk {}: '{}' has the slices of {} over [{}], expected [{}]", index, chunk.name(),
                     program.instructions[i].label, buffer.name, fmt::join(collective.axes, ", "),
                     fmt::join(expected, ", "));
    }
  };
  for (const Chunk &chunk : stage.chunks) {
    if (isPerMicrobatch(chunk.task) && units.empty())
      continue;
    const std::vector<Call> calls = expandedCalls(chunk);
    const std::vector<std::optional<UnitSlice>> ofUnits = unitsOf(plan, units, calls);
    for (size_t c = 0; c < calls.size(); ++c) {
      const Call &call = calls[c];
      buffers = isPerMicrobatch(chunk.task) ? buffersOf(plan, stage, ofUnits[c]) : ofStates;
      const Program &program = plan.programs[call.program];
      for (size_t i = 0; i < program.instructions.size(); ++i)
        if (const auto *collective = std::get_if<Collective>(&program.instructions[i].body))
          for (const Operand &operand : program.instructions[i].operands)
            if (const Binding &bound = call.segments[operand.segment]; bound.slot < 0)
              check(chunk, program, i, *collective, bound.offset + operand.offset,
                    &operand == &program.instructions[i].operands.front());
    }
  }
  for (const Bucket &bucket : stage.buckets)
    if (const std::set<std::string> expected = axesOfSums(bucket); !bucket.isFrozen() && summed[&bucket] != expected)
      problems.add("stage {} bucket {}: gradients are summed at the end of a step over [{}], expected [{}]", index,
                   bucket.name, fmt::join(summed[&bucket], ", "), fmt::join(expected, ", "));
}

// --- Parameters --------------------------------------------------------------------------------------------

// A call of a microbatch binds whole parameters and gradients, those of its instance.
void checkCalls(const Plan &plan, int64_t index, const ParameterBlocks &blocks, const Units &units,
                Problems &problems) {
  const StagePlan &stage = plan.stages[index];
  const ByteSet owned = ownedBytes(stage);
  const auto check = [&](const Chunk &chunk, const Call &call, size_t segment) {
    const int64_t begin = call.segments[segment].offset, bytes = plan.programs[call.program].segmentBytes[segment];
    if (call.segments[segment].slot >= 0 || bytes == 0 || !owned.meets({begin, begin + bytes}) ||
        units.sliceAt({begin, bytes}) || (isOfUnit(stage, call) && units.isGathered({begin, bytes})))
      return;
    const auto found = blocks.find(begin);
    const bool isBlock = found != blocks.end() && found->second.bytes == bytes;
    if (!isBlock || (found->second.instance >= 0 && found->second.instance != call.instance))
      problems.add("stage {} chunk {}: the call of '{}' for instance {} binds segment '{}' to bytes [{}, "
                   "{}), which are {}",
                   index, chunk.name(), plan.programs[call.program].name, call.instance,
                   plan.programs[call.program].segments[segment], begin, begin + bytes,
                   isBlock ? fmt::format("of a parameter of instance {}", found->second.instance)
                           : "no whole parameter or gradient");
  };
  for (const Chunk &chunk : stage.chunks)
    if (isPerMicrobatch(chunk.task))
      for (const Call &call : expandedCalls(chunk))
        for (size_t i = 0; i < call.segments.size(); ++i)
          check(chunk, call, i);
}

} // namespace

void verifyBucketUse(const Plan &plan, Flows &flows, Problems &problems) {
  const std::vector<ParameterBlocks> blocks = blocksOfStages(plan);
  for (int64_t s = 0; s < int64_t(plan.stages.size()); ++s) {
    const Units units(plan, s);
    checkCalls(plan, s, blocks[s], units, problems);
    checkCollectives(plan, s, units, problems);
    verifyUnits(plan, s, units, flows, problems);
    verifyUses(plan, s, blocks[s], units, problems);
    std::map<Task, Places> bound = boundPlaces(plan, plan.stages[s]);
    checkBound(plan, s, bound, problems);
    for (const Bucket &bucket : plan.stages[s].buckets)
      checkBucket(plan, s, bucket, bound, problems);
    verifyOffload(plan, s, problems);
  }
}

} // namespace mgc::plan
