#include "test/runtime/checkpoint/TestWeights.h"

#include "runtime/base/Bf16.h"
#include "runtime/random/Philox.h"

namespace mgc::test {

using plan::Bucket;
using plan::DType;
using plan::Parameter;
using plan::Plan;

ExpectedValue initialValue(uint64_t seed) {
  return [seed](const Parameter &parameter, int64_t index) {
    if (parameter.init != plan::InitKind::normal)
      return parameter.init == plan::InitKind::ones ? 1.0f : 0.0f;
    float value;
    normalRange(seed, hashName(parameter.tensor), uint64_t(index), 1, parameter.initStd, &value);
    return value;
  };
}

void forEachBucket(const Plan &plan, const ExpectedValue &expected,
                   const std::function<void(int64_t, const RankBucket &)> &visit) {
  for (int64_t rank = 0; rank < plan.mesh.worldSize(); ++rank) {
    const plan::StagePlan &stage = plan.stages[plan::stageOf(plan.mesh, rank)];
    for (size_t b = 0; b < stage.buckets.size(); ++b) {
      const Bucket &bucket = stage.buckets[b];
      const std::vector<float> whole = bucketContents(plan, rank, int64_t(b), expected);
      const int64_t parts = bucket.isSharded() ? plan::groupSize(plan.mesh, bucket.shardAxes) : 1;
      const int64_t slice = bucket.elements / parts;
      visit(rank, {bucket, whole, bucket.isSharded() ? slice * plan::coordinate(plan.mesh, rank, bucket.shardAxes) : 0,
                   slice});
    }
  }
}

void expectWeights(const Plan &plan, const Memory &memory, const ExpectedValue &expected) {
  const auto expectValues = [&](int64_t rank, DType type, int64_t offset, std::span<const float> values) {
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(memory.holds(rank, type, offset, int64_t(i), values[i]))
          << "rank " << rank << " offset " << offset << " element " << i << ", expected " << values[i];
  };
  forEachBucket(plan, expected, [&](int64_t rank, const RankBucket &of) {
    const std::vector<float> zeros(size_t(of.slice), 0);
    for (const plan::State &state : of.bucket.states)
      if (!isGradient(state.role))
        expectValues(rank, state.type, state.offset,
                     state.role == plan::StateRole::value    ? of.whole
                     : state.role == plan::StateRole::master ? of.own()
                                                             : std::span<const float>(zeros));
  });
}

} // namespace mgc::test
