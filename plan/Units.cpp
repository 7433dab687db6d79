// See Units.h.
#include "plan/Units.h"

#include "plan/mesh/Mesh.h"

#include <algorithm>

namespace mgc::plan {

int64_t elementsOfBlock(const Plan &plan, const Parameter &parameter) {
  const bool isPart = parameter.rows.extent > 0;
  int64_t elements = isPart ? parameter.rows.extent : 1;
  for (size_t i = 0; i < (isPart ? size_t(parameter.rows.dims) : parameter.dims.size()); ++i)
    elements *= parameter.dims[i].size / groupSize(plan.mesh, parameter.dims[i].axes);
  return elements;
}

Units::Units(const Plan &plan, int64_t index) : plan_(plan), stage_(plan.stages[index]) {
  for (size_t b = 0; b < stage_.buckets.size(); ++b) {
    const Bucket &bucket = stage_.buckets[b];
    for (const State &state : bucket.states) {
      const bool hasWhole =
          std::ranges::any_of(bucket.states, [&](const State &whole) { return isWholeOf(whole.role, state.role); });
      if (!state.sliced || !hasWhole || (state.role != StateRole::value && state.role != StateRole::gradientSlice))
        continue;
      const int64_t bytes = bytesOf(plan, bucket, state) / bucket.units;
      for (int64_t unit = 0; unit < bucket.units; ++unit)
        slices_[{state.offset + unit * bytes, bytes}] = {{static_cast<int64_t>(b), unit}, state.role};
    }
  }
  for (const Parameter &parameter : plan.parameters)
    for (const Parameter::Place &place : parameter.places)
      if (place.stage == index)
        addViews(parameter, place);
}

void Units::addViews(const Parameter &parameter, const Parameter::Place &place) {
  const Bucket &bucket = stage_.buckets[place.bucket];
  for (const State &state : bucket.states) {
    if (!isOfOneUnit(state.role) || state.sliced)
      continue;
    const int64_t width = sizeInBytes(state.type), bytes = elementsOfBlock(plan_, parameter) * width;
    for (int64_t i = 0; i < place.count; ++i) {
      const int64_t element = place.elementOffset + i * place.stride, inUnit = element % bucket.unitElements();
      views_.insert({{{state.offset + inUnit * width, bytes}, state.role},
                     {{place.bucket, element / bucket.unitElements()},
                      bytesOfWhole(bucket, state, 0),
                      isNumbered(parameter) ? place.first + i : -1}});
    }
  }
}

std::optional<UnitSlice> Units::sliceAt(const UnitBytes &bytes) const {
  const auto found = slices_.find(bytes);
  return found == slices_.end() ? std::nullopt : std::optional(found->second);
}

bool Units::isWhole(const UnitBytes &bytes, const UnitPlace &unit, StateRole slices) const {
  const Bucket &bucket = stage_.buckets[unit.bucket];
  return std::ranges::any_of(bucket.states, [&](const State &state) {
    return isWholeOf(state.role, slices) && bytesOfWhole(bucket, state, unit.unit) == bytes;
  });
}

bool Units::isSum(const UnitBytes &bytes, const UnitPlace &unit) const {
  const Bucket &bucket = stage_.buckets[unit.bucket];
  return std::ranges::any_of(bucket.states, [&](const State &state) {
    return state.role == StateRole::unitSum && state.offset == bytes.offset &&
           bytesOf(plan_, bucket, state) == bytes.bytes;
  });
}

bool Units::isGradient(const UnitBytes &bytes) const {
  return std::ranges::any_of(slices_, [&](const auto &slice) {
    return slice.second.role == StateRole::gradientSlice && isWhole(bytes, slice.second.unit, slice.second.role);
  });
}

bool Units::isGathered(const UnitBytes &bytes) const {
  return std::ranges::any_of(slices_, [&](const auto &slice) {
    return slice.second.role == StateRole::value && isWhole(bytes, slice.second.unit, slice.second.role);
  });
}

std::vector<Units::View> Units::viewsAt(const UnitBytes &bytes, StateRole role, int64_t instance) const {
  std::vector<View> found;
  for (auto [it, end] = views_.equal_range({bytes, role}); it != end; ++it)
    if (it->second.instance < 0 || it->second.instance == instance)
      found.push_back(it->second);
  return found;
}

} // namespace mgc::plan
