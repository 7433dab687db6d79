// See VerifyBucketUse.h.
#include "plan/prove/VerifyBucketUse.h"

#include "plan/Expand.h"
#include "plan/mesh/Mesh.h"
#include "plan/prove/Bytes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace mgc::plan {

namespace {

using Places = std::set<std::pair<int64_t, int64_t>>; // offset, bytes

// The regions that hold states.
ByteSet ownedBytes(const StagePlan &stage) {
  ByteSet owned;
  for (const Region &region : stage.regions)
    if (region.kind == "parameters" || region.kind == "gradients" || region.kind == "optimizer")
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
  check(Task::begin, *bucket.stateOf(bucket.isPerUnit() ? StateRole::gradientSlice : StateRole::gradient));
  // The norm reads all gradients, but no load: where none is pending, no call needs it before the update, which leaves counters
  // alone.
  for (const State &state : bucket.states)
    if (isGradient(state.role) && state.role != StateRole::unitGradient && (!bucket.hasLoad() || bucket.isReduced()))
      check(Task::reduce, state);
  if (bucket.isCounter())
    return;
  check(Task::update, *bucket.completeGradient());
  for (const State &state : bucket.states)
    if (!isGradient(state.role))
      check(Task::update, state);
}

// All that a step's end binds in the regions of state is a state: of other bytes no checkpoint and no copy of a device knows.
void checkBound(const Plan &plan, int64_t index, const std::map<Task, Places> &bound, Problems &problems) {
  const StagePlan &stage = plan.stages[index];
  Places states;
  for (const Bucket &bucket : stage.buckets)
    for (const State &state : bucket.states)
      states.insert({state.offset, bytesOf(plan, bucket, state)});
  const ByteSet owned = ownedBytes(stage);
  for (const auto &[task, places] : bound)
    for (const auto &[offset, bytes] : places)
      if (bytes > 0 && owned.meets({offset, offset + bytes}) && !states.contains({offset, bytes}))
        problems.add("stage {}: {} binds bytes [{}, {}), which are no state of a bucket", index, nameOf(task), offset,
                     offset + bytes);
}

// --- Collectives -------------------------------------------------------------------------------------------

// A buffer of a bucket in the rank's memory, with the type of its elements.
struct TypedBuffer {
  std::string name;
  int64_t begin = 0, end = 0;
  DType type = DType::f32;
};

std::vector<TypedBuffer> buffersOf(const Plan &plan, const StagePlan &stage) {
  std::vector<TypedBuffer> buffers;
  for (const Bucket &bucket : stage.buckets)
    for (const State &state : bucket.states)
      if (const int64_t bytes = bytesOf(plan, bucket, state); bytes > 0)
        buffers.push_back({bucket.name + "." + state.name, state.offset, state.offset + bytes, state.type});
  return buffers;
}

// At the end of a step, a collective takes a bucket's numbers for what they are: sums of f32 taken for bf16 are right only
// for small counts.
void checkCollectives(const Plan &plan, int64_t index, Problems &problems) {
  const StagePlan &stage = plan.stages[index];
  const std::vector<TypedBuffer> buffers = buffersOf(plan, stage);
  const auto check = [&](const Chunk &chunk, const Program &program, size_t i, DType type, int64_t offset) {
    for (const TypedBuffer &buffer : buffers)
      if (buffer.begin <= offset && offset < buffer.end && buffer.type != type)
        problems.add("stage {} chunk {}: '{}' takes {} for {}, expected {}", index, chunk.name(),
                     program.instructions[i].label, buffer.name, nameOf(type), nameOf(buffer.type));
  };
  for (const Chunk &chunk : stage.chunks) {
    if (isPerMicrobatch(chunk.task))
      continue;
    for (const Call &call : expandedCalls(chunk)) {
      const Program &program = plan.programs[call.program];
      for (size_t i = 0; i < program.instructions.size(); ++i)
        if (const auto *collective = std::get_if<Collective>(&program.instructions[i].body))
          for (const Operand &operand : program.instructions[i].operands)
            if (const Binding &bound = call.segments[operand.segment]; bound.slot < 0)
              check(chunk, program, i, collective->type, bound.offset + operand.offset);
    }
  }
}

// --- Parameters --------------------------------------------------------------------------------------------

// A parameter or its gradient, or the matrix that it is a part of, in the rank's memory.
struct Block {
  int64_t bytes = 0, instance = -1; // -1: of no instance
};
using Blocks = std::map<int64_t, Block>; // by the byte where they begin

int64_t elementsOfBlock(const Plan &plan, const Parameter &parameter) {
  const bool isPart = parameter.rows.extent > 0;
  int64_t elements = isPart ? parameter.rows.extent : 1;
  for (size_t i = 0; i < (isPart ? size_t(parameter.rows.dims) : parameter.dims.size()); ++i)
    elements *= parameter.dims[i].size / groupSize(plan.mesh, parameter.dims[i].axes);
  return elements;
}

std::vector<Blocks> blocksOfStages(const Plan &plan) {
  std::vector<Blocks> stages(plan.stages.size());
  for (const Parameter &parameter : plan.parameters) {
    const int64_t elements = elementsOfBlock(plan, parameter);
    for (const Parameter::Place &place : parameter.places)
      for (int64_t i = 0; i < place.count; ++i) {
        const Bucket &bucket = plan.stages[place.stage].buckets[place.bucket];
        for (const StateRole role : {StateRole::value, StateRole::gradient}) // units: checkUnits
          if (const State *state = bucket.stateOf(role)) {
            const int64_t width = sizeInBytes(state->type);
            stages[place.stage][state->offset + (place.elementOffset + i * place.stride) * width] = {
                elements * width, isNumbered(parameter) ? place.first + i : -1};
          }
      }
  }
  return stages;
}

// A gradient of a unit in the memory of units, or a slice of its sum.
struct UnitPlace {
  int64_t bucket = 0, unit = 0;
  auto operator<=>(const UnitPlace &) const = default;
};
// The memory of a bucket's unit.
using UnitBuffer = std::pair<int64_t, int64_t>; // offset, bytes

// Units of a stage: where their slices are, and what parameters have in the memory of units.
class Units {
public:
  Units(const Plan &plan, int64_t index) : plan_(plan), stage_(plan.stages[index]) {
    for (size_t b = 0; b < stage_.buckets.size(); ++b)
      if (const Bucket &bucket = stage_.buckets[b]; bucket.isPerUnit()) {
        const State &slices = *bucket.stateOf(StateRole::gradientSlice);
        const int64_t bytes = bytesOf(plan, bucket, slices) / bucket.units;
        for (int64_t unit = 0; unit < bucket.units; ++unit)
          slices_[{slices.offset + unit * bytes, bytes}] = {static_cast<int64_t>(b), unit};
      }
    for (const Parameter &parameter : plan.parameters)
      for (const Parameter::Place &place : parameter.places)
        if (place.stage == index && stage_.buckets[place.bucket].isPerUnit())
          addViews(parameter, place);
  }
  bool empty() const { return slices_.empty(); }
  UnitBuffer bufferOf(int64_t bucket) const {
    const State &state = *stage_.buckets[bucket].stateOf(StateRole::unitGradient);
    return {state.offset, bytesOf(plan_, stage_.buckets[bucket], state)};
  }
  std::optional<UnitPlace> sliceAt(int64_t offset, int64_t bytes) const {
    const auto found = slices_.find({offset, bytes});
    return found == slices_.end() ? std::nullopt : std::optional(found->second);
  }
  bool isBuffer(UnitBuffer buffer) const {
    return std::ranges::any_of(slices_, [&](const auto &slice) { return bufferOf(slice.second.bucket) == buffer; });
  }
  // Units that have a whole gradient of the instance there.
  std::vector<UnitPlace> viewsAt(int64_t offset, int64_t bytes, int64_t instance) const {
    std::vector<UnitPlace> found;
    for (auto [it, end] = views_.equal_range({offset, bytes}); it != end; ++it)
      if (it->second.second < 0 || it->second.second == instance)
        found.push_back(it->second.first);
    return found;
  }

private:
  void addViews(const Parameter &parameter, const Parameter::Place &place) {
    const Bucket &bucket = stage_.buckets[place.bucket];
    const State &state = *bucket.stateOf(StateRole::unitGradient);
    const int64_t width = sizeInBytes(state.type), bytes = elementsOfBlock(plan_, parameter) * width;
    for (int64_t i = 0; i < place.count; ++i) {
      const int64_t element = place.elementOffset + i * place.stride, inUnit = element % bucket.unitElements();
      views_.insert({{state.offset + inUnit * width, bytes},
                     {{place.bucket, element / bucket.unitElements()}, isNumbered(parameter) ? place.first + i : -1}});
    }
  }
  const Plan &plan_;
  const StagePlan &stage_;
  std::map<std::pair<int64_t, int64_t>, UnitPlace> slices_;                         // by offset and bytes
  std::multimap<std::pair<int64_t, int64_t>, std::pair<UnitPlace, int64_t>> views_; // likewise; with the instance
};

// The gradient of a unit is cleared, then one call adds to it, then it is added to the unit's slice; only then comes the next one in
// its memory.
class UnitUse {
public:
  UnitUse(const Plan &plan, int64_t index, const Chunk &chunk, const Units &units, Problems &problems)
      : plan_(plan), index_(index), stage_(plan.stages[index]), chunk_(chunk), units_(units), problems_(problems) {
    for (const Region &region : stage_.regions)
      if (region.kind == "units")
        region_ = {region.offset, region.offset + region.bytes};
  }

  void check() {
    const std::vector<Call> calls = expandedCalls(chunk_);
    for (const Call &call : calls)
      run(call);
    for (const auto &[buffer, made] : active_)
      report("ends with a gradient at {} that no call has added to a slice", buffer.first);
  }

private:
  void run(const Call &call) {
    const Program &program = plan_.programs[call.program];
    call_ = &call;
    std::optional<UnitPlace> slice;
    std::vector<UnitBuffer> inRegion;
    bool isOther = false; // binds something else, but for the frame
    for (size_t i = 0; i < call.segments.size(); ++i) {
      const int64_t offset = call.segments[i].offset, bytes = program.segmentBytes[i];
      if (bytes == 0 || static_cast<int64_t>(i) == program.frame)
        continue;
      if (call.segments[i].slot < 0 && offset < region_.end && region_.begin < offset + bytes)
        inRegion.emplace_back(offset, bytes);
      else if (const auto at = call.segments[i].slot < 0 ? units_.sliceAt(offset, bytes) : std::nullopt)
        slice = at;
      else
        isOther = true;
    }
    if (slice)
      accumulate(*slice, inRegion, isOther);
    else if (!inRegion.empty() && !isOther)
      clear(inRegion);
    else
      for (const UnitBuffer &view : inRegion)
        addTo(view);
  }

  void clear(const std::vector<UnitBuffer> &buffers) {
    if (buffers.size() != 1 || !units_.isBuffer(buffers[0]))
      return report("clears what is not the gradient of one unit");
    for (const auto &[other, made] : active_)
      if (other.first < buffers[0].first + buffers[0].second && buffers[0].first < other.first + other.second)
        return report("clears a gradient at {} before it was added to a slice", other.first);
    active_[buffers[0]] = {};
  }

  void addTo(const UnitBuffer &view) {
    const std::vector<UnitPlace> views = units_.viewsAt(view.first, view.second, call_->instance);
    for (auto &[buffer, made] : active_) {
      std::set<UnitPlace> possible;
      for (const UnitPlace &unit : views)
        if (units_.bufferOf(unit.bucket) == buffer && (made.by != call_ || made.units.contains(unit)))
          possible.insert(unit);
      if (possible.empty() || (made.by && made.by != call_))
        continue;
      made = {call_, std::move(possible)};
      return;
    }
    report("adds to bytes [{}, {}), which are no gradient of its instance in a unit that was cleared for it",
           view.first, view.first + view.second);
  }

  void accumulate(const UnitPlace &slice, const std::vector<UnitBuffer> &buffers, bool isOther) {
    const UnitBuffer expected = units_.bufferOf(slice.bucket);
    const auto found = active_.find(expected);
    if (isOther || buffers != std::vector<UnitBuffer>{expected} || found == active_.end() ||
        !found->second.units.contains(slice))
      return report("adds to the slice of unit {} of bucket {} what is not this unit's gradient", slice.unit,
                    stage_.buckets[slice.bucket].name);
    active_.erase(found);
  }

  template <typename... Args> void report(fmt::format_string<Args...> format, Args &&...args) {
    problems_.add(
        "stage {} chunk {}: {}{}", index_, chunk_.name(),
        call_ ? fmt::format("the call of '{}' for instance {} ", plan_.programs[call_->program].name, call_->instance)
              : "",
        fmt::format(format, std::forward<Args>(args)...));
  }

  const Plan &plan_;
  int64_t index_;
  const StagePlan &stage_;
  const Chunk &chunk_;
  const Units &units_;
  Problems &problems_;
  ByteInterval region_{0, 0};
  const Call *call_ = nullptr;
  // The call that adds to it, and the units whose parameters have the bytes that it adds to; none yet.
  struct Made {
    const Call *by = nullptr;
    std::set<UnitPlace> units;
  };
  std::map<UnitBuffer, Made> active_;
};

void checkUnits(const Plan &plan, int64_t index, Problems &problems) {
  const Units units(plan, index);
  if (!units.empty())
    for (const Chunk &chunk : plan.stages[index].chunks)
      if (isPerMicrobatch(chunk.task))
        UnitUse(plan, index, chunk, units, problems).check();
}

// A call of a microbatch binds whole parameters and gradients, those of its instance.
void checkCalls(const Plan &plan, int64_t index, const Blocks &blocks, Problems &problems) {
  const StagePlan &stage = plan.stages[index];
  const ByteSet owned = ownedBytes(stage);
  const Units units(plan, index);
  const auto check = [&](const Chunk &chunk, const Call &call, size_t segment) {
    const int64_t begin = call.segments[segment].offset, bytes = plan.programs[call.program].segmentBytes[segment];
    if (call.segments[segment].slot >= 0 || bytes == 0 || !owned.meets({begin, begin + bytes}) ||
        units.sliceAt(begin, bytes))
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

void verifyBucketUse(const Plan &plan, Problems &problems) {
  const std::vector<Blocks> blocks = blocksOfStages(plan);
  for (int64_t s = 0; s < int64_t(plan.stages.size()); ++s) {
    checkCalls(plan, s, blocks[s], problems);
    checkCollectives(plan, s, problems);
    checkUnits(plan, s, problems);
    std::map<Task, Places> bound = boundPlaces(plan, plan.stages[s]);
    checkBound(plan, s, bound, problems);
    for (const Bucket &bucket : plan.stages[s].buckets)
      checkBucket(plan, s, bucket, bound, problems);
  }
}

} // namespace mgc::plan
