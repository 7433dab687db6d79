// Units of a stage's buckets (ZeRO-2 and 3): where ranks keep slices of each, and what is in the memory that has one at a time. In: a
// plan that passed verifyPlan; it outlives the object.
#pragma once

#include "plan/Expand.h"

#include <compare>
#include <map>
#include <optional>
#include <vector>

namespace mgc::plan {

// Elements of a parameter's block on a rank, or of the matrix that it is a part of.
int64_t elementsOfBlock(const Plan &plan, const Parameter &parameter);

struct UnitPlace {
  int64_t bucket = 0, unit = 0;
  auto operator<=>(const UnitPlace &) const = default;
};
// Bytes of the rank's allocation.
struct UnitBytes {
  int64_t offset = 0, bytes = 0;
  auto operator<=>(const UnitBytes &) const = default;
};
// The rank's slice of a unit. role: gradientSlice, to which gradients are added, or value, of which values are gathered.
struct UnitSlice {
  UnitPlace unit;
  StateRole role = StateRole::gradientSlice;
  bool operator==(const UnitSlice &) const = default;
};
// The role of the memory in which the whole unit is, of that of its slices.
constexpr StateRole wholeOf(StateRole slices) {
  return slices == StateRole::value ? StateRole::unitValue : StateRole::unitGradient;
}

class Units {
public:
  Units(const Plan &plan, int64_t stage);
  bool empty() const { return slices_.empty(); }
  const std::map<UnitBytes, UnitSlice> &slices() const { return slices_; }
  std::optional<UnitSlice> sliceAt(const UnitBytes &bytes) const;
  // Whether the bytes are those of a whole unit of the bucket; the role is unitGradient or unitValue.
  bool isWhole(const UnitBytes &bytes, int64_t bucket, StateRole role) const;
  // Likewise, of some bucket.
  bool isWhole(const UnitBytes &bytes, StateRole role) const;
  // A parameter's block in the memory of a whole unit.
  struct View {
    UnitPlace unit;
    UnitBytes whole;
    int64_t instance = -1; // -1: of no instance
  };
  // Views of units that have such bytes, of an instance.
  std::vector<View> viewsAt(const UnitBytes &bytes, StateRole role, int64_t instance) const;

private:
  void addViews(const Parameter &parameter, const Parameter::Place &place);
  UnitBytes bytesOfWhole(const Bucket &bucket, const State &state) const {
    return {state.offset, bytesOf(plan_, bucket, state)};
  }
  const Plan &plan_;
  const StagePlan &stage_;
  std::map<UnitBytes, UnitSlice> slices_;
  std::multimap<std::pair<UnitBytes, StateRole>, View> views_;
};

} // namespace mgc::plan
