// See StageMemory.h.
#include "compiler/assemble/StageMemory.h"

#include "plan/StepScalars.h"
#include "runtime/base/Checked.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <numeric>

using namespace mlir;

namespace mgc {

namespace {

plan::Input describeInput(const DataRead &data, RankedTensorType type) {
  plan::Input input{data.kind->kind, dtypeOf(type.getElementType()), {}, -1, data.shift, data.ofEncoder};
  for (auto [name, size, axes] : llvm::zip(layoutOf(type).getNames(), type.getShape(), layoutOf(type).getAxes()))
    input.dims.push_back({name.str(), size, axesOf(axes)});
  return input;
}

std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

} // namespace

namespace {

// The values and the gradient of one unit in the second memory.
constexpr std::string_view kSecondUnit = "unit_value_second", kSecondGradient = "unit_gradient_second";

class StagePlacement {
public:
  StagePlacement(const StageContents &stage, const std::vector<ChunkLayout> &chunks, const Frames &frames)
      : stage_(stage), chunks_(chunks), frames_(frames), functions_(functionsOf(stage, chunks)) {}

  Result<StageMemory> run(const schedule::PeriodicStage &schedule) {
    const bool hasPairs = std::ranges::any_of(
        schedule.steps, [](const schedule::PeriodicStep &step) { return schedule::isPaired(step.step); });
    out_.twice = hasPairs                               ? StageMemory::Twice::forPairs
                 : stage_.training->overlapsParamGather ? StageMemory::Twice::aheadOfUse
                                                        : StageMemory::Twice::no;
    out_.sumsBeside = stage_.training->overlapsGradReduce && !hasPairs;
    placeBuckets();
    if (hasPairs && llvm::is_contained(stage_.gathers, GatherTime::microbatch))
      return errorf("--no-reshard-after-forward: the schedule pairs a forward with a backward of another microbatch, "
                    "which would read values while they are gathered again\n  possible: another --schedule, or "
                    "--reshard-after-forward");
    addRegion("scalars", [&] {
      out_.stepScalars = take(plan::kStepScalars.size() * 4);
      out_.results = take(plan::kResults.size() * 4);
      out_.factor = take(4);
    });
    Status inputs = Status::ok();
    addRegion("inputs", [&] { inputs = placeInputs(); });
    MGC_TRY(std::move(inputs));
    addRegion("activations", [&] { out_.activations = take(schedule.bytes); });
    const auto isOfOneUnit = [](const plan::State &state) { return plan::isOfOneUnit(state.role); };
    if (std::ranges::any_of(
            out_.buckets, [&](const plan::Bucket &bucket) { return std::ranges::any_of(bucket.states, isOfOneUnit); }))
      addRegion("units", [&] { placeUnits(); });
    const int64_t recomputed = mostOf(&ChunkLayout::recomputedBytes), staged = mostOf(&ChunkLayout::stagedBytes);
    if (recomputed + staged > 0)
      addRegion(plan::kTransient, [&] {
        out_.recomputed = take(recomputed);
        out_.staged = out_.forwardStaged = take(staged);
        if (hasPairs)
          out_.forwardStaged = take(staged);
      });
    if (const int64_t staging = stagingBytes(); staging > 0)
      addRegion(plan::kStaging, [&] { out_.staging = {take(staging), take(staging)}; });
    addRegion("frame", [&] { placeFrames(); });
    const Checked bytes = end_;
    if (schedule.hostBytes > 0)
      addRegion(plan::kHostActivations, [&] { out_.hostActivations = take(schedule.hostBytes); });
    placeOnHost();
    if (!end_)
      return errorf("the stage's buffers take more bytes than 64 bits hold");
    out_.bytes = *bytes;
    out_.hostBytes = *end_ - *bytes;
    std::ranges::sort(out_.regions, {},
                      [](const plan::Region &region) { return std::tuple(region.offset, region.bytes, region.kind); });
    out_.leastBytes = out_.bytes - plan::aligned(schedule.bytes) + plan::aligned(schedule.leastBytes) -
                      *framesOf(&FunctionFrame::bytes) + *framesOf(&FunctionFrame::leastBytes);
    return std::move(out_);
  }

private:
  int64_t take(Checked bytes) {
    const int64_t begin = end_.value_or(0);
    const Checked end = checkedAdd(checkedAdd(end_, bytes), plan::kAlignment - 1);
    end_ = end ? Checked(*end / plan::kAlignment * plan::kAlignment) : std::nullopt;
    return begin;
  }

  template <typename Fill> void addRegion(std::string_view kind, Fill fill) {
    const int64_t begin = end_.value_or(0);
    fill();
    out_.regions.push_back({std::string(kind), begin, end_.value_or(begin) - begin});
  }

  void placeBuckets() {
    out_.buckets = stage_.buckets;
    for (const StageContents::Pieces &pieces : stage_.piecesOnHost)
      moveToHost(pieces);
    for (size_t i = 0; i < out_.buckets.size(); ++i) {
      out_.gatheredStates.push_back(addSecondMemory(i));
      out_.gradientStates.push_back(addSecondGradient(i));
    }
    for (const char *region : {"parameters", "gathered", "gradients", "optimizer"})
      if (const auto isThere =
              [&](const plan::State &state) { return region == StringRef(plan::regionOf(state.role)); };
          StringRef(region) != "gathered" || std::ranges::any_of(out_.buckets, [&](const plan::Bucket &bucket) {
            return std::ranges::any_of(bucket.states, isThere);
          }))
        addRegion(region, [&] { placeStates(region); });
  }

  bool hasPairs() const { return out_.twice == StageMemory::Twice::forPairs; }

  // Adds the state of the second memory where calls gather values of the bucket to both.
  std::array<int64_t, 2> addSecondMemory(size_t bucket) {
    std::vector<plan::State> &states = out_.buckets[bucket].states;
    const auto gathered = std::ranges::find_if(states, [](const plan::State &state) {
      return state.role == plan::StateRole::unitValue || state.role == plan::StateRole::gatheredValue;
    });
    if (gathered == states.end())
      return {-1, -1};
    const int64_t first = gathered - states.begin();
    if (gathered->role == plan::StateRole::gatheredValue)
      return {first, first};
    return addSecond(states, first, kSecondUnit, isReadFrom(bucket, false), isReadFrom(bucket, true));
  }
  std::array<int64_t, 2> addSecondGradient(size_t bucket) {
    std::vector<plan::State> &states = out_.buckets[bucket].states;
    const auto gradient = std::ranges::find(states, plan::StateRole::unitGradient, &plan::State::role);
    if (gradient == states.end())
      return {-1, -1};
    const auto uses = [&](bool second) {
      return isOfSome(bucket, [&](size_t instance) { return out_.isSecondGradient(instance) == second; });
    };
    return addSecond(states, gradient - states.begin(), kSecondGradient, uses(false), uses(true));
  }
  static std::array<int64_t, 2> addSecond(std::vector<plan::State> &states, int64_t first, std::string_view name,
                                          bool inFirst, bool inSecond) {
    if (!inFirst || !inSecond)
      return {inSecond ? -1 : first, inSecond ? first : -1};
    plan::State second = states[first];
    second.name = name;
    states.push_back(std::move(second));
    return {first, std::ssize(states) - 1};
  }

  // Whether calls read parameters of the bucket in the memory.
  bool isReadFrom(size_t bucket, bool second) {
    if (out_.twice == StageMemory::Twice::forPairs)
      return isReadBy(bucket, second);
    return isOfSome(bucket, [&](size_t i) { return out_.isSecond(plan::Task::backward, i) == second; });
  }

  // Whether an instance has parameters of the bucket that has a place in its chunk for which isWanted holds.
  bool isOfSome(size_t bucket, llvm::function_ref<bool(size_t)> isWanted) {
    for (const StageContents::Place &place : stage_.places)
      if (size_t(place.bucket) == bucket)
        for (const ChunkLayout &chunk : chunks_)
          for (auto [i, instance] : llvm::enumerate(chunk.instances()))
            if (const int64_t number = instance.number - place.first;
                instance.block->base == place.block && number >= 0 && number < place.count && isWanted(i))
              return true;
    return false;
  }

  // Whether calls of forward, or of the other tasks of a microbatch, read parameters of the bucket.
  bool isReadBy(size_t bucket, bool forward) {
    const auto reads = [&](const BlockFunction &function, int64_t parameter) {
      return llvm::any_of(function.arguments, [&](const BlockFunction::Argument &argument) {
        return argument.kind == BlockFunction::ArgumentKind::parameter && argument.index == parameter;
      });
    };
    for (const StageContents::Place &place : stage_.places)
      if (size_t(place.bucket) == bucket)
        for (const ChunkLayout &chunk : chunks_)
          for (const ModelBlock *block : chunk.blocks())
            for (plan::Task task : plan::kBlockTasks)
              if (block->base == place.block && (task == plan::Task::forward) == forward && block->computes(task) &&
                  reads(*block->functionOf(task), place.argument))
                return true;
    return false;
  }

  // --- States on the host

  void moveToHost(const StageContents::Pieces &pieces) {
    for (plan::State &state : out_.buckets[pieces.bucket].states)
      if (llvm::is_contained(pieces.sizes.states, state.name))
        state.hostElements += pieces.parts * pieces.sizes.elementsOfPart;
  }

  // The bytes of the largest piece.
  int64_t stagingBytes() {
    int64_t most = 0;
    for (const auto &[bucket, parts, sizes] : stage_.piecesOnHost)
      most = std::max(most, std::accumulate(sizes.bytes.begin(), sizes.bytes.end(), int64_t(0)));
    return most;
  }

  void placeOnHost() {
    if (std::ranges::none_of(out_.buckets, [](const plan::Bucket &bucket) {
          return std::ranges::any_of(bucket.states, [](const plan::State &state) { return state.hostElements > 0; });
        }))
      return;
    addRegion(plan::kHostOptimizer, [&] {
      for (plan::Bucket &bucket : out_.buckets)
        for (plan::State &state : bucket.states)
          if (state.hostElements > 0)
            state.hostOffset = take(checkedMultiply(state.hostElements, plan::sizeInBytes(state.type)));
    });
  }

  // States of a role lie together: the first of each bucket, then the second.
  void placeStates(StringRef region) {
    for (size_t role = 0; role < plan::enumNames<plan::StateRole>.size(); ++role)
      if (bool isThere = region == StringRef(plan::regionOf(plan::StateRole(role))); isThere)
        for (size_t number = 0; std::exchange(isThere, false); ++number)
          for (plan::Bucket &bucket : out_.buckets)
            if (plan::State *state = stateOf(bucket, plan::StateRole(role), number)) {
              if (const int64_t elements = elementsOf(bucket, *state) - state->hostElements; elements > 0)
                state->offset = take(checkedMultiply(elements, plan::sizeInBytes(state->type)));
              isThere = true;
            }
  }
  static plan::State *stateOf(plan::Bucket &bucket, plan::StateRole role, size_t number) {
    for (plan::State &state : bucket.states)
      if (state.role == role && number-- == 0)
        return &state;
    return nullptr;
  }
  int64_t elementsOf(const plan::Bucket &bucket, const plan::State &state) {
    return bucket.elementsOf(state, plan::groupSize(stage_.mesh, bucket.axesOf(state)));
  }

  // The gradient and the values of one unit of each bucket. Those of buckets that one instance has parameters of lie apart; others
  // share memory with those of the same kind, and values with gradients too, unless calls use a memory in turn: then two instances are
  // there at once.
  void placeUnits() {
    const std::vector<SmallVector<Instances, 2>> instances = instancesOfBuckets();
    const auto groupOf = [&](size_t bucket, const plan::State &state) {
      const int64_t number = &state - out_.buckets[bucket].states.data();
      if (!isGradient(state.role))
        return number == out_.gatheredStates[bucket][1] ? UnitKind::secondValue : UnitKind::value;
      if (!out_.sumsBeside)
        return out_.twice == StageMemory::Twice::aheadOfUse ? UnitKind::gradient : UnitKind::value;
      return state.role == plan::StateRole::unitSum     ? UnitKind::sum
             : number == out_.gradientStates[bucket][1] ? UnitKind::secondGradient
                                                        : UnitKind::gradient;
    };
    for (const UnitKind group :
         {UnitKind::value, UnitKind::secondValue, UnitKind::gradient, UnitKind::secondGradient, UnitKind::sum}) {
      std::vector<PlacedUnit> placed;
      Checked most = 0;
      for (size_t b = 0; b < out_.buckets.size(); ++b)
        for (plan::State &state : out_.buckets[b].states) {
          if (!isOfOneUnit(state.role) || groupOf(b, state) != group)
            continue;
          const PlacedUnit &unit = placeUnit(b, state, instances, placed);
          state.offset = end_.value_or(0) + unit.begin.value_or(0);
          most = most && unit.end ? Checked(std::max(*most, *unit.end)) : std::nullopt;
        }
      take(most);
    }
  }

  // One lies behind the other.
  enum class UnitKind { value, secondValue, gradient, secondGradient, sum };
  struct PlacedUnit {
    size_t bucket;
    Checked begin, end;
  };
  // Instances first .. end - 1 of a block.
  struct Instances {
    StringRef block;
    int64_t first, end;
    bool operator==(const Instances &) const = default;
  };

  // Takes the first place where no unit lies that some instance uses together with this one. `placed` is in the order of places.
  const PlacedUnit &placeUnit(size_t bucket, const plan::State &state,
                              const std::vector<SmallVector<Instances, 2>> &instances,
                              std::vector<PlacedUnit> &placed) {
    const Checked bytes = checkedMultiply(elementsOf(out_.buckets[bucket], state), plan::sizeInBytes(state.type));
    Checked begin = 0;
    for (const PlacedUnit &other : placed)
      if (haveOneInstance(instances[bucket], instances[other.bucket]) && begin && other.begin &&
          *other.begin < checkedAdd(begin, bytes).value_or(std::numeric_limits<int64_t>::max()))
        begin = std::max(*begin, other.end.value_or(*begin));
    const Checked end = checkedAdd(checkedAdd(begin, bytes), plan::kAlignment - 1);
    const auto behind = std::ranges::upper_bound(placed, begin.value_or(0), {},
                                                 [](const PlacedUnit &one) { return one.begin.value_or(0); });
    return *placed.insert(behind,
                          {bucket, begin, end ? Checked(*end / plan::kAlignment * plan::kAlignment) : std::nullopt});
  }

  // Instances that have parameters of each bucket.
  std::vector<SmallVector<Instances, 2>> instancesOfBuckets() {
    std::vector<SmallVector<Instances, 2>> all(out_.buckets.size());
    for (const StageContents::Place &place : stage_.places)
      if (const Instances one{place.block, place.first, place.first + place.count};
          !llvm::is_contained(all[place.bucket], one))
        all[place.bucket].push_back(one);
    return all;
  }
  static bool haveOneInstance(ArrayRef<Instances> some, ArrayRef<Instances> others) {
    return llvm::any_of(some, [&](const Instances &a) {
      return llvm::any_of(others,
                          [&](const Instances &b) { return a.block == b.block && a.first < b.end && b.first < a.end; });
    });
  }

  // All microbatches of each kind of data that the stage's functions read; positions are the same for all.
  Status placeInputs() {
    for (const ChunkLayout &chunk : chunks_)
      for (const ModelBlock *block : chunk.blocks())
        for (const BlockFunction *function : block->functions())
          for (unsigned i = 0; i < function->arguments.size(); ++i)
            if (function->arguments[i].kind == BlockFunction::ArgumentKind::data)
              MGC_TRY(placeInput(function->function, i));
    return Status::ok();
  }

  Status placeInput(func::FuncOp function, unsigned argument) {
    const std::string data = function.getArgAttrOfType<StringAttr>(argument, kDataAttr).str();
    RankedTensorType type = shardedType(function.getArgAttr(argument, kTypeAttr));
    MGC_ASSIGN(known, readDataKind(data));
    const plan::Input input = describeInput(known, type);
    auto [it, isNew] = out_.inputs.try_emplace(data, StageInput{input, {}});
    if (!isNew)
      return input == it->second.input
                 ? Status::ok()
                 : errorf("function {}: reads {} as {}; expected the type that the functions before it read",
                          function.getName().str(), data, textOf(type));
    plan::Ring &ring = it->second.ring;
    ring.name = data;
    ring.bytes = bytesOf(function.getArgumentTypes()[argument]);
    const int64_t slots = plan::isOneForAllMicrobatches(known.kind->kind) ? 1 : stage_.training->microbatches;
    ring.stride = slots > 1 ? plan::aligned(ring.bytes) : 0;
    ring.turns = {{0, slots, 0}};
    ring.offset = take(checkedMultiply(plan::aligned(ring.bytes), slots));
    return Status::ok();
  }

  int64_t largestFrame(const std::set<std::string> &functions, int64_t FunctionFrame::*bytes) {
    int64_t most = 0;
    for (const std::string &name : functions)
      most = std::max(most, frames_.at(name).*bytes);
    return plan::aligned(most);
  }
  Checked framesOf(int64_t FunctionFrame::*bytes) {
    const int64_t forward = largestFrame(functions_.forward, bytes), others = largestFrame(functions_.others, bytes);
    return hasPairs() ? checkedAdd(forward, others) : Checked(std::max(forward, others));
  }

  // The most bytes that a chunk has of something.
  int64_t mostOf(int64_t (ChunkLayout::*bytes)() const) {
    int64_t most = 0;
    for (const ChunkLayout &chunk : chunks_)
      most = std::max(most, (chunk.*bytes)());
    return most;
  }

  void placeFrames() {
    out_.flow = take(mostOf(&ChunkLayout::flowBytes));
    out_.forwardFlow = take(mostOf(&ChunkLayout::forwardFlowBytes));
    out_.frame = out_.forwardFrame = take(framesOf(&FunctionFrame::bytes));
    if (hasPairs())
      out_.forwardFrame += largestFrame(functions_.others, &FunctionFrame::bytes);
  }

  const StageContents &stage_;
  const std::vector<ChunkLayout> &chunks_;
  const Frames &frames_;
  const StageFunctions functions_;
  Checked end_ = 0;
  StageMemory out_;
};

} // namespace

Result<StageMemory> placeStage(const StageContents &stage, const std::vector<ChunkLayout> &chunks,
                               const schedule::PeriodicStage &schedule, const Frames &frames) {
  return StagePlacement(stage, chunks, frames).run(schedule);
}

} // namespace mgc
