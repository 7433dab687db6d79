// Weights of test plans: layouts to hold them in, initial ones, and what a rank's memory should have of them.
#pragma once

#include "runtime/checkpoint/Weights.h"
#include "test/runtime/TensorFiles.h"
#include "test/runtime/checkpoint/TestPlan.h"

namespace mgc::test {

inline const std::vector<MeshSizes> kMeshes = {{1, 1, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}, {1, 1, 2, 2},
                                               {2, 1, 1, 1}, {1, 3, 1, 1}, {3, 2, 2, 2}, {2, 2, 4, 1}};

inline Memory initialised(const plan::Plan &plan, uint64_t seed) {
  Memory memory(plan);
  EXPECT_TRUE(isOk(initWeights(plan, seed, memory.arenas())));
  return memory;
}

// Initial values that are drawn from this seed.
ExpectedValue initialValue(uint64_t seed);

// A bucket of a rank, and the elements that are the rank's where it is sharded.
struct RankBucket {
  const plan::Bucket &bucket;
  std::span<const float> whole; // bucketContents
  int64_t first, slice;
  std::span<const float> own() const { return whole.subspan(size_t(first), size_t(slice)); }
};
void forEachBucket(const plan::Plan &plan, const ExpectedValue &expected,
                   const std::function<void(int64_t rank, const RankBucket &)> &visit);

// Each value of each rank is that of bucketContents, in the plan's type; so are masters, if any. Moments are zero.
void expectWeights(const plan::Plan &plan, const Memory &memory, const ExpectedValue &expected);

} // namespace mgc::test
