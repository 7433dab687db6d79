// Gradients of units (ZeRO-2): the memory of one is used by one instance after another, and each is added to the slice of its unit.
#pragma once

#include "plan/Expand.h"
#include "runtime/base/Problems.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace mgc::plan {

// Elements of a parameter's block on a rank, or of the matrix that it is a part of.
int64_t elementsOfBlock(const Plan &plan, const Parameter &parameter);

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
  const std::map<std::pair<int64_t, int64_t>, UnitPlace> &slices() const { return slices_; } // by offset and bytes
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

// In the order of a chunk's calls, a unit's gradient is cleared, one call adds to it, which binds gradients of its own instance there, and
// the next adds it to the unit's slice; only then comes another in its memory. Each unit is added in some chunk. Units whose memory and
// parameters lie alike, as those of an untied table and head may, are not told apart. In: a plan that passed verifyPlan.
void verifyUnits(const Plan &plan, int64_t stage, const Units &units, Problems &problems);

} // namespace mgc::plan
