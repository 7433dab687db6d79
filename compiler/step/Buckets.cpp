// See Buckets.h.
#include "compiler/step/Buckets.h"
#include "runtime/base/Rounding.h"

#include "plan/mesh/Mesh.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <utility>

namespace mgc {

static constexpr int64_t kManyParts = 64; // so many that the padding of the last is small

// Padded size of a bucket that is divided over so many ranks. Sizes that ranks divide badly have no good parts.
static int64_t slicedElements(int64_t elements, int64_t alignment, int64_t ranks) {
  bool isLarge = elements >= kManyParts * kPartElements * ranks;
  return roundUp(elements, (isLarge ? kPartElements : alignment) * ranks);
}

namespace {

// Tensor, part, and the instance where the name has one.
struct Identity {
  std::string_view tensor, part;
  int64_t instance;
  auto operator<=>(const Identity &) const = default;
};

Identity identityOf(const BlockParameter &parameter, int64_t instance) {
  bool numbered = parameter.tensor.find("{}") != std::string::npos;
  return {parameter.tensor, parameter.part, numbered ? instance : -1};
}

// Facts known of a parameter over all its uses.
struct Uses {
  const BlockParameter *first = nullptr;
  int64_t count = 0;
  std::set<int64_t> stages;
};

plan::Axes pendingOver(const BucketKey &key) {
  plan::Axes axes = key.reduce;
  axes.insert(axes.end(), key.data.begin(), key.data.end());
  return axes;
}

class BucketPlanner {
public:
  explicit BucketPlanner(const BucketProblem &problem) : problem_(problem) {}

  Result<std::vector<StageBuckets>> plan() {
    MGC_TRY(collectUses());
    layTiedBuckets();
    for (size_t stage = 0; stage < problem_.stages.size(); ++stage)
      planStage(int64_t(stage));
    return std::move(stages_);
  }

private:
  struct Offset { // in a stage
    int64_t bucket = 0, offset = 0;
  };

  Status collectUses() {
    for (size_t stage = 0; stage < problem_.stages.size(); ++stage)
      for (const InstanceRange &range : problem_.stages[stage])
        for (const BlockParameter &parameter : problem_.blocks[range.block])
          for (int64_t i = range.first; i < range.first + range.count; ++i)
            MGC_TRY(addUse(parameter, identityOf(parameter, i), int64_t(stage)));
    return Status::ok();
  }

  Status addUse(const BlockParameter &parameter, const Identity &identity, int64_t stage) {
    Uses &uses = uses_[identity];
    if (!uses.first)
      uses.first = &parameter;
    const BucketKey &a = uses.first->key, &b = parameter.key;
    if (uses.first->elements != parameter.elements || a.split != b.split || uses.first->view != parameter.view)
      return errorf("parameter {}: one use holds {} elements per rank split over [{}], another {} over [{}]; tied uses "
                    "must be placed alike\n  one is {}\n  another {}",
                    parameter.tensor, uses.first->elements, fmt::join(a.split, ", "), parameter.elements,
                    fmt::join(b.split, ", "), uses.first->view, parameter.view);
    if (a.reduce != b.reduce || a.data != b.data)
      return errorf("parameter {}: the gradient of one use is pending over [{}], of another over [{}]; tied uses must "
                    "agree",
                    parameter.tensor, fmt::join(pendingOver(a), ", "), fmt::join(pendingOver(b), ", "));
    uses.count += 1;
    uses.stages.insert(stage);
    return Status::ok();
  }

  BucketKey keyOf(const Uses &uses) const {
    BucketKey key = uses.first->key;
    key.tied.clear();
    if (uses.stages.size() > 1)
      key.tied.assign(uses.stages.begin(), uses.stages.end());
    return key;
  }
  // The key of a parameter of the unit, if its bucket has units.
  BucketKey keyOf(const Uses &uses, int64_t unit) const {
    BucketKey key = keyOf(uses);
    key.unit = isPerUnit(key, problem_.sharding) ? unit : -1;
    return key;
  }
  // The unit that a parameter with several uses is, the same on all stages.
  int64_t unitOfShared(const Identity &identity) const { return std::distance(uses_.begin(), uses_.find(identity)); }

  // Once for all stages, in the order of identities.
  void layTiedBuckets() {
    for (const auto &[identity, uses] : uses_) {
      if (uses.stages.size() < 2)
        continue;
      int64_t &end = tiedElements_[keyOf(uses, unitOfShared(identity))];
      tiedOffsets_[identity] = end;
      end += roundUp(uses.first->elements, problem_.alignment);
    }
  }

  int64_t bucketOf(StageBuckets &stage, const BucketKey &key, int64_t elements = 0) {
    for (size_t i = 0; i < stage.buckets.size(); ++i)
      if (stage.buckets[i].key == key)
        return int64_t(i);
    stage.buckets.push_back({key, elements, shardAxesOf(key, problem_.sharding), outerAxesOf(key, problem_.sharding), 1,
                             gatherTimeOf(key, problem_.sharding)});
    return int64_t(stage.buckets.size()) - 1;
  }

  void planStage(int64_t number) {
    StageBuckets &stage = stages_.emplace_back();
    for (const auto &[key, elements] : tiedElements_)
      if (std::ranges::find(key.tied, number) != key.tied.end())
        bucketOf(stage, key, elements);
    std::map<Identity, Offset> shared;
    for (const InstanceRange &range : problem_.stages[number]) {
      placeShared(stage, range, shared);
      placeOwn(stage, range);
    }
    for (PlannedBucket &bucket : stage.buckets)
      bucket.elements = bucket.units * paddedUnit(bucket.key, bucket.elements / bucket.units);
  }

  int64_t paddedUnit(const BucketKey &key, int64_t elements) const {
    plan::Axes shard = shardAxesOf(key, problem_.sharding);
    std::ranges::copy(outerAxesOf(key, problem_.sharding), std::back_inserter(shard));
    return shard.empty() ? elements
                         : slicedElements(elements, problem_.alignment, plan::groupSize(problem_.sharding.mesh, shard));
  }

  bool isShared(const BlockParameter &parameter, const InstanceRange &range) const {
    for (int64_t i = range.first; i < range.first + range.count; ++i)
      if (uses_.at(identityOf(parameter, i)).count > 1)
        return true;
    return false;
  }

  // Parameters with several uses are placed one by one, once per stage.
  void placeShared(StageBuckets &stage, const InstanceRange &range, std::map<Identity, Offset> &shared) {
    const std::vector<BlockParameter> &parameters = problem_.blocks[range.block];
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (!isShared(parameters[p], range))
        continue;
      for (int64_t i = range.first; i < range.first + range.count; ++i) {
        Identity identity = identityOf(parameters[p], i);
        auto [it, isNew] = shared.try_emplace(identity);
        if (isNew)
          it->second = offsetOf(stage, identity);
        stage.places.push_back({range.block, int64_t(p), i, 1, it->second.bucket, it->second.offset, 0});
      }
    }
  }

  Offset offsetOf(StageBuckets &stage, const Identity &identity) {
    const Uses &uses = uses_.at(identity);
    int64_t bucket = bucketOf(stage, keyOf(uses, unitOfShared(identity)));
    if (auto tied = tiedOffsets_.find(identity); tied != tiedOffsets_.end())
      return {bucket, tied->second};
    int64_t &end = stage.buckets[bucket].elements;
    return {bucket, std::exchange(end, end + roundUp(uses.first->elements, problem_.alignment))};
  }

  // All others: in each bucket the instances of the range follow each other.
  void placeOwn(StageBuckets &stage, const InstanceRange &range) {
    const std::vector<BlockParameter> &parameters = problem_.blocks[range.block];
    std::map<int64_t, int64_t> strides; // by bucket
    size_t firstPlace = stage.places.size();
    const int64_t unit = std::ssize(uses_) + nextUnit_++;
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (isShared(parameters[p], range))
        continue;
      BucketKey key = keyOf(uses_.at(identityOf(parameters[p], range.first)), unit);
      key.part = key.use == plan::BucketUse::frozen ? -1 : range.part;
      int64_t bucket = bucketOf(stage, key);
      int64_t &stride = strides[bucket];
      stage.places.push_back(
          {range.block, int64_t(p), range.first, range.count, bucket, stage.buckets[bucket].elements + stride, 0});
      stride += roundUp(parameters[p].elements, problem_.alignment);
    }
    for (auto &[bucket, stride] : strides)
      if (PlannedBucket &of = stage.buckets[bucket]; of.key.unit >= 0)
        of.units = range.count, stride = paddedUnit(of.key, stride);
    for (size_t i = firstPlace; i < stage.places.size(); ++i)
      stage.places[i].stride = strides[stage.places[i].bucket];
    for (auto [bucket, stride] : strides)
      stage.buckets[bucket].elements += stride * range.count;
  }

  const BucketProblem &problem_;
  std::map<Identity, Uses> uses_;
  std::map<Identity, int64_t> tiedOffsets_; // for parameters that several stages hold
  std::map<BucketKey, int64_t> tiedElements_;
  int64_t nextUnit_ = 0; // the next range's
  std::vector<StageBuckets> stages_;
};

} // namespace

// The data axes between instances of the optimizer, or those inside of one.
static plan::Axes dataAxes(const BucketKey &key, const plan::Mesh &mesh, bool betweenInstances) {
  const auto between = mesh.named.find(std::string(plan::kInstanceAxis));
  plan::Axes axes;
  for (const std::string &axis : key.data)
    if (const bool isBetween =
            between != mesh.named.end() && std::ranges::find(between->second, axis) != between->second.end();
        isBetween == betweenInstances)
      axes.push_back(axis);
  return axes;
}

// The time of what has data axes to be sliced along.
static GatherTime gatherTimeOfSlices(const BucketKey &key, const Sharding &sharding) {
  const bool isFrozen = key.use == plan::BucketUse::frozen;
  if (key.meanLoad != 0 || (key.use != plan::BucketUse::trained && !isFrozen))
    return GatherTime::never;
  if (sharding.level > 2)
    return sharding.reshards ? GatherTime::use : GatherTime::microbatch;
  const bool isMoved = !isFrozen || key.isEvaluated;
  return sharding.level > 0 && sharding.gathersAhead && isMoved ? GatherTime::step : GatherTime::never;
}

GatherTime gatherTimeOf(const BucketKey &key, const Sharding &sharding) {
  return dataAxes(key, sharding.mesh, false).empty() ? GatherTime::never : gatherTimeOfSlices(key, sharding);
}

plan::Axes shardAxesOf(const BucketKey &key, const Sharding &sharding) {
  const bool isSharded =
      key.use == plan::BucketUse::frozen ? gatherTimeOfSlices(key, sharding) != GatherTime::never : sharding.level > 0;
  return isSharded ? dataAxes(key, sharding.mesh, false) : plan::Axes();
}

plan::Axes outerAxesOf(const BucketKey &key, const Sharding &sharding) {
  const bool isSharded = sharding.shardsOuter && isPerUnit(key, sharding) && key.use != plan::BucketUse::frozen;
  return isSharded ? dataAxes(key, sharding.mesh, true) : plan::Axes();
}

bool isPerUnit(const BucketKey &key, const Sharding &sharding) {
  const bool isOfLoad = key.use == plan::BucketUse::routerBias || key.use == plan::BucketUse::loadCounter;
  return sharding.level > 1 && !dataAxes(key, sharding.mesh, false).empty() && !isOfLoad && key.meanLoad == 0;
}

Result<std::vector<StageBuckets>> planBuckets(const BucketProblem &problem) { return BucketPlanner(problem).plan(); }

} // namespace mgc
