// See ParameterBindings.h.
#include "plan/cost/ParameterBindings.h"

#include "plan/Units.h"
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

int64_t addressOf(const Plan &plan, const Parameter::Place &place, int64_t instance) {
  const StagePlan &stage = plan.stages[place.stage];
  return addressOf(stage, place.bucket) + (place.elementOffset + instance * place.stride) *
                                              sizeInBytes(stage.buckets[place.bucket].stateOf(StateRole::value)->type);
}

} // namespace

bool BoundRange::contains(int64_t address) const {
  const int64_t distance = address - offset;
  return distance == 0 || (stride != 0 && distance % stride == 0 && distance / stride > 0 && distance / stride < count);
}

ParameterBindings::ParameterBindings(const Plan &plan) : plan_(plan), backward_(plan.stages.size()) { addBackward(); }

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

double ParameterBindings::sharePassedByGradients(const Parameter &parameter) const {
  double passed = 0, instances = 0;
  for (const Parameter::Place &place : parameter.places)
    for (int64_t instance = 0; instance < place.count; ++instance, ++instances)
      passed += std::ranges::any_of(backward_[place.stage], [&](const BoundRange &range) {
        return range.contains(addressOf(plan_, place, instance));
      });
  return passed / instances;
}
