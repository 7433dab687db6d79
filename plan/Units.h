// Places of the units of a stage's buckets (ZeRO-2 and 3): of ranks' slices, and of parameters in the memory that has one whole unit at a
// time. In: a plan that passed verifyPlan; it outlives the object.
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
// Whether states of the role have whole what those of the other have slices of.
constexpr bool isWholeOf(StateRole whole, StateRole slices) {
  return slices == StateRole::value ? whole == StateRole::unitValue || whole == StateRole::gatheredValue
                                    : whole == StateRole::unitGradient;
}

class Units {
public:
  Units(const Plan &plan, int64_t stage);
  bool empty() const { return slices_.empty(); }
  const std::map<UnitBytes, UnitSlice> &slices() const { return slices_; }
  std::optional<UnitSlice> sliceAt(const UnitBytes &bytes) const;
  // Whether the bytes are memory for the whole unit: its gradient, where `slices` is gradientSlice, or its values, where it is value.
  bool isWhole(const UnitBytes &bytes, const UnitPlace &unit, StateRole slices) const;
  // Whether the bytes are memory for the rank's slice of the sum of the unit's gradients.
  bool isSum(const UnitBytes &bytes, const UnitPlace &unit) const;
  // Whether some unit's gradient is there at a time.
  bool isGradient(const UnitBytes &bytes) const;
  // Whether some unit's values are, at a time or always.
  bool isGathered(const UnitBytes &bytes) const;
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
  UnitBytes bytesOfWhole(const Bucket &bucket, const State &state, int64_t unit) const {
    const int64_t bytes = bucket.unitElements() * sizeInBytes(state.type);
    return {state.offset + (isOfOneUnit(state.role) ? 0 : unit * bytes), bytes};
  }
  const Plan &plan_;
  const StagePlan &stage_;
  std::map<UnitBytes, UnitSlice> slices_;
  std::multimap<std::pair<UnitBytes, StateRole>, View> views_;
};

} // namespace mgc::plan
