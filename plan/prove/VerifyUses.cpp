// See VerifyUses.h.
#include "plan/prove/VerifyUses.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace mgc::plan {

namespace {

// A gradient by the first element of its parameter, or by the number of its unit.
struct Gradient {
  int64_t bucket = 0, at = 0;
  auto operator<=>(const Gradient &) const = default;
};
using Counts = std::map<Gradient, int64_t>;

struct Expected {
  int64_t least = 0, most = 0;
};

class UsesOfStage {
public:
  UsesOfStage(const Plan &plan, int64_t index, const ParameterBlocks &blocks, const Units &units, Problems &problems)
      : plan_(plan), index_(index), stage_(plan.stages[index]), blocks_(blocks), units_(units), problems_(problems) {}

  void check() {
    Counts all;
    for (const auto &[chunks, counts] : countChunks())
      for (const auto &[gradient, count] : counts)
        all[gradient] += count;
    for (const auto &[gradient, expected] : expectedUses())
      if (const int64_t found = all[gradient]; found < expected.least || found > expected.most)
        problems_.add("stage {}: {} calls of a microbatch add to the gradient at {} {} of bucket {}, expected {}, the "
                      "uses of its parameters",
                      index_, found, hasUnits(gradient.bucket) ? "unit" : "element", gradient.at,
                      stage_.buckets[gradient.bucket].name,
                      expected.least == expected.most ? fmt::to_string(expected.least)
                                                      : fmt::format("{} to {}", expected.least, expected.most));
  }

private:
  bool hasUnits(int64_t bucket) const { return stage_.buckets[bucket].hasUnitGradients(); }
  Gradient gradientAt(int64_t bucket, int64_t element) const {
    return {bucket, hasUnits(bucket) ? element / stage_.buckets[bucket].unitElements() : element};
  }

  // Chunks that run in turn for one microbatch or another, as a first microbatch's do, have equal counts.
  std::map<std::pair<int64_t, bool>, Counts> countChunks() {
    std::map<std::pair<int64_t, bool>, std::map<std::pair<bool, bool>, Counts>>
        ways; // virtual stage, forward; halves, first
    for (const Chunk &chunk : stage_.chunks)
      if (isPerMicrobatch(chunk.task)) {
        const bool isForward = chunk.task == Task::forward, isHalf = !isForward && chunk.task != Task::backward;
        Counts &counts = ways[{chunk.virtualStage, isForward}][{isHalf, chunk.first}];
        for (const Call &call : expandedCalls(chunk))
          for (const Gradient &gradient : gradientsOf(call))
            ++counts[gradient];
      }
    std::map<std::pair<int64_t, bool>, Counts> counts;
    for (auto &[chunks, possible] : ways) {
      Counts &first = possible.begin()->second;
      if (std::ranges::any_of(possible, [&](const auto &way) { return way.second != first; }))
        problems_.add(
            "stage {}: the chunks of virtual stage {} that run a whole {} or its parts, for the first microbatch or "
            "others, do not add to the same gradients",
            index_, chunks.first, chunks.second ? "forward" : "backward");
      counts.emplace(chunks, std::move(first));
    }
    return counts;
  }

  std::set<Gradient> gradientsOf(const Call &call) const {
    std::set<Gradient> gradients;
    for (size_t i = 0; i < call.segments.size(); ++i) {
      const UnitBytes at = {call.segments[i].offset, plan_.programs[call.program].segmentBytes[i]};
      if (call.segments[i].slot >= 0 || at.bytes == 0)
        continue;
      if (const std::optional<UnitSlice> slice = units_.sliceAt(at)) {
        if (slice->role == StateRole::gradientSlice)
          gradients.insert({slice->unit.bucket, slice->unit.unit});
      } else if (const auto found = blocks_.find(at.offset);
                 found != blocks_.end() && found->second.role == StateRole::gradient) {
        gradients.insert(gradientAt(found->second.bucket, found->second.element));
      }
    }
    return gradients;
  }

  // Parts of a matrix have one place.
  std::map<Gradient, Expected> expectedUses() const {
    std::map<std::pair<int64_t, int64_t>, int64_t> uses; // by bucket and element
    for (const Parameter &parameter : plan_.parameters)
      for (const Parameter::Place &place : parameter.places)
        if (const Bucket &bucket = stage_.buckets[place.bucket];
            place.stage == index_ && (bucket.stateOf(StateRole::gradient) || bucket.hasUnitGradients()))
          for (int64_t i = 0; i < place.count; ++i) {
            int64_t &most = uses[{place.bucket, place.elementOffset + i * place.stride}];
            most = std::max(most, place.uses);
          }
    std::map<Gradient, Expected> expected;
    for (const auto &[at, count] : uses) {
      Expected &of = expected[gradientAt(at.first, at.second)];
      of.least = std::max(of.least, count), of.most += count;
    }
    return expected;
  }

  const Plan &plan_;
  int64_t index_;
  const StagePlan &stage_;
  const ParameterBlocks &blocks_;
  const Units &units_;
  Problems &problems_;
};

} // namespace

std::vector<ParameterBlocks> blocksOfStages(const Plan &plan) {
  std::vector<ParameterBlocks> stages(plan.stages.size());
  for (const Parameter &parameter : plan.parameters) {
    const int64_t elements = elementsOfBlock(plan, parameter);
    for (const Parameter::Place &place : parameter.places)
      for (int64_t i = 0; i < place.count; ++i) {
        const Bucket &bucket = plan.stages[place.stage].buckets[place.bucket];
        const int64_t element = place.elementOffset + i * place.stride;
        for (const StateRole role : {StateRole::value, StateRole::gatheredValue, StateRole::gradient})
          if (const State *state = bucket.stateOf(role); state && !state->sliced) {
            const int64_t width = sizeInBytes(state->type), instance = isNumbered(parameter) ? place.first + i : -1;
            stages[place.stage][state->offset + element * width] = {elements * width, instance, place.bucket, element,
                                                                    role};
          }
      }
  }
  return stages;
}

void verifyUses(const Plan &plan, int64_t stage, const ParameterBlocks &blocks, const Units &units,
                Problems &problems) {
  UsesOfStage(plan, stage, blocks, units, problems).check();
}

} // namespace mgc::plan
