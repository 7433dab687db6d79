// See CopyWeights.h.
#include "runtime/checkpoint/CopyWeights.h"

#include "plan/Expand.h"
#include "runtime/checkpoint/BucketBuffer.h"

#include <algorithm>
#include <cstring>
#include <fmt/ranges.h>
#include <map>

namespace mgc {

static bool areAlike(const plan::Bucket &from, const plan::Bucket &to) {
  const plan::State &a = valuesOf(from), &b = valuesOf(to);
  return from.elements == to.elements && from.units == to.units && a.type == b.type && from.axesOf(a) == to.axesOf(b);
}

static bool areAlike(const plan::Parameter &from, const plan::Parameter &to) {
  const auto coincide = [](const plan::Parameter::Place &a, const plan::Parameter::Place &b) {
    return a.coincidesWith(b);
  };
  return from.dims == to.dims && std::ranges::equal(from.places, to.places, coincide) && from.rows == to.rows;
}

static std::vector<int64_t> beginsOf(const plan::Parameter &parameter) {
  std::vector<int64_t> begins;
  for (const plan::Parameter::Place &place : parameter.places)
    begins.push_back(place.elementOffset);
  return begins;
}

static std::vector<std::string> valuesIn(const plan::Plan &plan, size_t stage) {
  std::vector<std::string> texts;
  for (const plan::Bucket &bucket : plan.stages[stage].buckets) {
    const plan::State &values = valuesOf(bucket);
    texts.push_back(
        fmt::format("{} {}{}{}", bucket.elements, nameOf(values.type),
                    bucket.units > 1 ? fmt::format(" in {} units", bucket.units) : "",
                    values.sliced ? fmt::format(" sliced over {}", fmt::join(bucket.axesOf(values), ", ")) : ""));
  }
  return texts;
}

Result<WeightCopier> WeightCopier::between(const plan::Plan &from, const plan::Plan &to) {
  if (!(from.mesh == to.mesh) || from.stages.size() != to.stages.size())
    return Status::error("its mesh is another");
  std::map<std::string_view, const plan::Parameter *> known;
  for (const plan::Parameter &parameter : from.parameters)
    known[parameter.name] = &parameter;
  if (known.size() != to.parameters.size())
    return errorf("it has {} parameters, expected {}", to.parameters.size(), known.size());
  for (const plan::Parameter &parameter : to.parameters) {
    const auto found = known.find(parameter.name);
    if (found == known.end())
      return errorf("parameter {}: is not in the plan that is trained", parameter.name);
    if (!areAlike(*found->second, parameter))
      return errorf("parameter {}: its dimensions, the axes that split them, or its places (at elements {} of their "
                    "buckets) are not those of the training (at {})",
                    parameter.name, fmt::join(beginsOf(parameter), ", "), fmt::join(beginsOf(*found->second), ", "));
  }
  for (size_t stage = 0; stage < to.stages.size(); ++stage)
    if (!std::ranges::equal(from.stages[stage].buckets, to.stages[stage].buckets,
                            [](const plan::Bucket &a, const plan::Bucket &b) { return areAlike(a, b); }))
      return errorf("the buckets of stage {} are not those of the training: their values are [{}], expected [{}]",
                    stage, fmt::join(valuesIn(to, stage), ", "), fmt::join(valuesIn(from, stage), ", "));
  return WeightCopier(from, to);
}

void WeightCopier::copy(int64_t rank, const std::byte *from, std::byte *to) const {
  const int64_t stage = plan::stageOf(to_.mesh, rank);
  for (size_t i = 0; i < to_.stages[stage].buckets.size(); ++i) {
    const plan::Bucket &read = from_.stages[stage].buckets[i], &written = to_.stages[stage].buckets[i];
    std::memcpy(to + valuesOf(written).offset, from + valuesOf(read).offset,
                size_t(bytesOf(to_, written, valuesOf(written))));
  }
}

} // namespace mgc
