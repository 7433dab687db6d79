// See CopyWeights.h.
#include "runtime/checkpoint/CopyWeights.h"

#include "runtime/checkpoint/BucketBuffer.h"

#include "plan/mesh/Mesh.h"
#include "runtime/checkpoint/ParameterShard.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace mgc {

static const plan::Bucket &bucketAt(const plan::Plan &plan, const plan::Parameter::Place &place) {
  return plan.stages[place.stage].buckets[place.bucket];
}

// placeOf: how far an element lies from where its block begins in memory, in elements.
static int64_t placeOf(const Shard &shard, int64_t element) {
  return element / shard.rowElements * shard.rowStride + element % shard.rowElements;
}

Status WeightCopier::verify(const Pair &pair) const {
  const auto &[from, to, source, target] = pair;
  const bool isSame =
      from->dims == to->dims && valuesOf(bucketAt(from_, *source)).type == valuesOf(bucketAt(to_, *target)).type;
  return isSame ? Status::ok()
                : errorf("parameter {}: its dimensions, the axes that split them, or its type are others", to->name);
}

// A parameter is on the same stages in both.
Status WeightCopier::add(const plan::Parameter &from, const plan::Parameter &to) {
  if (from.places.size() != to.places.size())
    return errorf("parameter {}: is kept {} times, expected {} times", to.name, to.places.size(), from.places.size());
  for (size_t i = 0; i < to.places.size(); ++i) {
    const Pair pair{&from, &to, &from.places[i], &to.places[i]};
    if (pair.source->stage != pair.target->stage)
      return errorf("parameter {}: is on stage {}, expected {}", to.name, pair.target->stage, pair.source->stage);
    MGC_TRY(verify(pair));
    ofStage_[pair.target->stage].push_back(pair);
  }
  return Status::ok();
}

Result<WeightCopier> WeightCopier::between(const plan::Plan &from, const plan::Plan &to) {
  if (!(from.mesh == to.mesh) || from.stages.size() != to.stages.size())
    return Status::error("its mesh is another");
  std::map<std::string_view, const plan::Parameter *> known;
  for (const plan::Parameter &parameter : from.parameters)
    known[parameter.name] = &parameter;
  if (known.size() != to.parameters.size())
    return errorf("it has {} parameters, expected {}", to.parameters.size(), known.size());
  WeightCopier copier(from, to);
  for (const plan::Parameter &parameter : to.parameters) {
    const auto found = known.find(parameter.name);
    if (found == known.end())
      return errorf("parameter {}: is not in the plan that is trained", parameter.name);
    MGC_TRY(copier.add(*found->second, parameter));
  }
  return copier;
}

void WeightCopier::copy(int64_t rank, const std::byte *from, std::byte *to) const {
  for (const auto &[source, target, at, into] : ofStage_[plan::stageOf(to_.mesh, rank)]) {
    const plan::Bucket &read = bucketAt(from_, *at), &written = bucketAt(to_, *into);
    const int64_t bytes = sizeInBytes(valuesOf(written).type);
    const Shard taken = shardOf(from_.mesh, *source, rank), given = shardOf(to_.mesh, *target, rank);
    const std::byte *begin = from + valuesOf(read).offset + beginOf(*source, *at) * bytes;
    std::byte *place = to + valuesOf(written).offset + beginOf(*target, *into) * bytes;
    // Rows are of the last dimensions of one block, so that those of one plan divide those of the other.
    const int64_t all = given.rows * given.rowElements, run = std::min(taken.rowElements, given.rowElements);
    for (int64_t i = 0; i < all; i += run)
      std::memcpy(place + placeOf(given, i) * bytes, begin + placeOf(taken, i) * bytes, size_t(run * bytes));
  }
}

} // namespace mgc
