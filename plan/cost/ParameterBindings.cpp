// See ParameterBindings.h.
#include "plan/cost/ParameterBindings.h"

#include "plan/Units.h"
#include "plan/cost/PlanOrders.h"
#include "plan/cost/PlanWalk.h"

#include <algorithm>

using namespace mgc;
using namespace mgc::plan;
using namespace mgc::cost;

namespace {

// Where the values of a bucket begin.
int64_t addressOf(const StagePlan &stage, int64_t bucket) {
  const State &values = *stage.buckets[bucket].stateOf(StateRole::value);
  if (!values.sliced)
    return values.offset;
  int64_t address = stage.bytes;
  for (int64_t before = 0; before < bucket; ++before)
    address += stage.buckets[before].elements * sizeInBytes(stage.buckets[before].stateOf(StateRole::value)->type);
  return address;
}

// The ranges of the calls of a chunk, which come in the order in which they run.
class BoundRanges {
public:
  BoundRanges(const Plan &plan, const Units &units, int64_t stage)
      : plan_(plan), units_(units), stage_(plan.stages[stage]) {
    for (size_t b = 0; b < stage_.buckets.size(); ++b)
      if (const State *values = stage_.buckets[b].stateOf(StateRole::gatheredValue))
        kept_.push_back(
            {{values->offset, bytesOf(plan, stage_.buckets[b], *values)}, addressOf(stage_, int64_t(b)), 0});
  }

  // Calls visit(segment, range) for each segment of the call that lies in the rank's allocation itself, as parameters do.
  template <typename Visit> void forEach(const Call &call, int64_t runs, Visit &&visit) {
    if (readGather(call))
      return;
    forgetOverwritten(call);
    for (size_t segment = 0; segment < call.segments.size(); ++segment) {
      const Binding &binding = call.segments[segment];
      if (binding.slot >= 0)
        continue;
      const auto isIn = [&](const Gathered &one) { return meets(one, binding.offset); };
      const auto values = std::ranges::find_if(gathered_.rbegin(), gathered_.rend(), isIn);
      if (const auto kept = std::ranges::find_if(kept_, isIn); kept != kept_.end())
        visit(segment, BoundRange{kept->address + binding.offset - kept->whole.offset, binding.stride, runs});
      else if (values == gathered_.rend())
        visit(segment, BoundRange{binding.offset, binding.stride, runs});
      else
        visit(segment,
              BoundRange{values->address + binding.offset - values->whole.offset, values->addressStride, runs});
    }
  }

private:
  UnitBytes bytesAt(const Call &call, size_t segment) const {
    return {call.segments[segment].offset, plan_.programs[call.program].segmentBytes[segment]};
  }
  // Gradients of units come where values were.
  void forgetOverwritten(const Call &call) {
    for (size_t i = 0; i < call.segments.size(); ++i)
      if (const UnitBytes bytes = bytesAt(call, i); call.segments[i].slot < 0 && units_.isGradient(bytes))
        std::erase_if(gathered_, [&](const Gathered &one) {
          return one.whole.offset < bytes.offset + bytes.bytes && bytes.offset < one.whole.offset + one.whole.bytes;
        });
  }
  // Whether the call gathers values of a unit.
  bool readGather(const Call &call) {
    std::optional<Gathered> gathered;
    for (size_t i = 0; i < call.segments.size(); ++i)
      if (const auto slice = call.segments[i].slot < 0 ? units_.sliceAt(bytesAt(call, i)) : std::nullopt;
          slice && slice->role == StateRole::value) {
        const Bucket &bucket = stage_.buckets[slice->unit.bucket];
        const int64_t unit = bucket.unitElements() * sizeInBytes(bucket.stateOf(StateRole::value)->type);
        gathered = Gathered{{},
                            addressOf(stage_, slice->unit.bucket) + slice->unit.unit * unit,
                            call.segments[i].stride / bytesAt(call, i).bytes * unit};
      }
    for (size_t i = 0; gathered && i < call.segments.size(); ++i)
      if (units_.isGathered(bytesAt(call, i)))
        gathered->whole = bytesAt(call, i);
    if (gathered &&
        std::ranges::none_of(kept_, [&](const Gathered &one) { return meets(one, gathered->whole.offset); }))
      gathered_.push_back(*gathered);
    return gathered.has_value();
  }

  struct Gathered {
    UnitBytes whole;
    int64_t address = 0, addressStride = 0;
  };
  static bool meets(const Gathered &one, int64_t offset) {
    return one.whole.offset <= offset && offset < one.whole.offset + one.whole.bytes;
  }
  const Plan &plan_;
  const Units &units_;
  const StagePlan &stage_;
  std::vector<Gathered> gathered_; // the last is in the memory that several have
  std::vector<Gathered> kept_;     // all units of a bucket, which stay
};

bool bindsRing(const Call &call, const Chunk &chunk, int64_t ring) {
  return std::ranges::any_of(
      call.segments, [&](const Binding &binding) { return binding.slot >= 0 && chunk.slots[binding.slot] == ring; });
}

bool readsTokensOfDecoder(const StagePlan &stage, const Chunk &chunk, const Call &call) {
  return std::ranges::any_of(stage.inputs, [&](const Input &input) {
    return input.kind == Input::Kind::tokens && !input.ofEncoder && bindsRing(call, chunk, input.ring);
  });
}

// The forward chunk of a virtual stage, the first microbatch's or the others'; null: the stage has none.
const Chunk *forwardChunk(const StagePlan &stage, int64_t virtualStage) {
  const auto found = std::ranges::find_if(stage.chunks, [&](const Chunk &chunk) {
    return chunk.task == Task::forward && chunk.virtualStage == virtualStage;
  });
  return found == stage.chunks.end() ? nullptr : &*found;
}

// For each segment that is a matrix of parameters, the rows of its matrix products: their FLOPs are 2 x rows x
// elements. A matrix of which several products read a part each has as many rows as one product with all of it.
std::vector<double> rowsOfSegments(const Plan &plan, const Program &program) {
  std::vector<double> rows(program.segments.size());
  forEachInstruction(program, [&](const Instruction &instruction) {
    if (kindOf(instruction.body) != WorkKind::product)
      return;
    const OperandInfos infos = operandsOf(plan.mesh, instruction.body);
    const double flops = workOf(plan.mesh, instruction.body).flops;
    for (size_t i = 0; i < infos.size(); ++i)
      if (const int64_t segment = instruction.operands[i].segment; infos[i].isRead())
        rows[segment] += flops * double(infos[i].elementBytes) / (2 * double(program.segmentBytes[segment]));
  });
  return rows;
}

int64_t addressOf(const Plan &plan, const Parameter::Place &place, int64_t instance) {
  const StagePlan &stage = plan.stages[place.stage];
  return addressOf(stage, place.bucket) + (place.elementOffset + instance * place.stride) *
                                              sizeInBytes(stage.buckets[place.bucket].stateOf(StateRole::value)->type);
}

bool isSplit(const Mesh &mesh, const Parameter &parameter) {
  return std::ranges::any_of(parameter.dims, [&](const ParameterDim &dim) { return groupSize(mesh, dim.axes) > 1; });
}

} // namespace

bool BoundRange::contains(int64_t address) const {
  const int64_t distance = address - offset;
  return distance == 0 || (stride != 0 && distance % stride == 0 && distance / stride > 0 && distance / stride < count);
}

ParameterBindings::ParameterBindings(const Plan &plan)
    : plan_(plan), forward_(plan.stages.size()), backward_(plan.stages.size()) {
  if (plan.encoderLength > 0)
    addForward();
  addBackward();
}

// Calls are visited in the order in which a microbatch passes them.
void ParameterBindings::addForward() {
  std::vector<std::vector<double>> rows;
  for (const Program &program : plan_.programs)
    rows.push_back(rowsOfSegments(plan_, program));
  const schedule::Shape shape = shapeOf(plan_);
  bool isOfEncoder = true;
  for (int64_t global = 0; global < shape.chunks(); ++global) {
    const int64_t stage = shape.stageOf(global);
    const Chunk *chunk = forwardChunk(plan_.stages[stage], shape.chunkOf(global));
    if (!chunk)
      continue;
    const Units units(plan_, stage);
    BoundRanges ranges(plan_, units, stage);
    forEachCall(*chunk, [&](const Call &call, int64_t runs) {
      isOfEncoder = isOfEncoder && !readsTokensOfDecoder(plan_.stages[stage], *chunk, call);
      ranges.forEach(call, runs, [&](size_t segment, const BoundRange &range) {
        forward_[stage].push_back({range, isOfEncoder, rows[call.program][segment]});
      });
    });
  }
}

void ParameterBindings::addBackward() {
  for (size_t stage = 0; stage < plan_.stages.size(); ++stage) {
    const Units units(plan_, int64_t(stage));
    for (const Chunk &chunk : plan_.stages[stage].chunks)
      if (BoundRanges ranges(plan_, units, int64_t(stage)); isPerMicrobatch(chunk.task) && chunk.task != Task::forward)
        forEachCall(chunk, [&](const Call &call, int64_t runs) {
          ranges.forEach(call, runs, [&](size_t, const BoundRange &range) { backward_[stage].push_back(range); });
        });
  }
}

// Instances are alike, so the first of each place is asked.
std::vector<const ParameterBindings::ForwardUse *> ParameterBindings::forwardUsesOf(const Parameter &parameter) const {
  std::vector<const ForwardUse *> uses;
  for (const Parameter::Place &place : parameter.places)
    for (const ForwardUse &use : forward_[place.stage])
      if (use.range.contains(addressOf(plan_, place, 0)))
        uses.push_back(&use);
  return uses;
}

bool ParameterBindings::isOfEncoder(const Parameter &parameter) const {
  const std::vector<const ForwardUse *> uses = forwardUsesOf(parameter);
  return !uses.empty() && std::ranges::all_of(uses, &ForwardUse::isOfEncoder);
}

// A matrix product with a matrix that tensor ranks share has all rows on each of them; of others they may share the
// rows.
bool ParameterBindings::hasRowsOfEncoder(const Parameter &parameter, double rows) const {
  const auto rowsOf = [&](int64_t positions) { return double(positions * plan_.microBatchSize); };
  const auto sharers =
      isSplit(plan_.mesh, parameter) ? 1.0 : double(groupSize(plan_.mesh, axesOf(plan_.mesh, AxisRole::tensor)));
  const double own = rowsOf(plan_.sequenceLength), others = rowsOf(plan_.encoderLength);
  const bool isOfDecoder = rows == own || rows * sharers == own;
  return !isOfDecoder && (rows == others || rows * sharers == others);
}

int64_t ParameterBindings::positionsOf(const Parameter &parameter) const {
  const bool hasImages = readsImages(plan_);
  if (isOfEncoder(parameter))
    return hasImages ? plan_.images.positions() : plan_.encoderLength;
  const bool meetsEncoder = std::ranges::any_of(
      forwardUsesOf(parameter), [&](const ForwardUse *use) { return hasRowsOfEncoder(parameter, use->rows); });
  return !meetsEncoder ? plan_.sequenceLength : hasImages ? plan_.images.features() : plan_.encoderLength;
}

double ParameterBindings::sharePassedByGradients(const Parameter &parameter) const {
  double passed = 0, instances = 0;
  for (const Parameter::Place &place : parameter.places)
    for (int64_t instance = 0; instance < place.count; ++instance, ++instances)
      passed += std::ranges::any_of(backward_[place.stage], [&](const BoundRange &range) {
        return range.contains(addressOf(plan_, place, instance));
      });
  return passed / instances;
}
