// Where elements of a bucket lie that ranks share by units: each rank has a slice of each.
#include "runtime/checkpoint/BucketBuffer.h"

#include <gtest/gtest.h>
#include <numeric>

namespace mgc::test {
namespace {

constexpr int64_t kUnits = 3,
                  kElements =
                      24; // two ranks: element e of unit u is rank e % 8 / 4's, element 4 u + e % 4 of its slices

plan::Plan planOfUnits() {
  plan::Plan plan;
  plan.mesh.axes = {{"dp", 2, plan::AxisRole::data}};
  plan.mesh.named = {{"dp", {"dp"}}};
  plan::Bucket &bucket = plan.stages.emplace_back().buckets.emplace_back();
  bucket.elements = kElements, bucket.units = kUnits, bucket.dataAxes = bucket.shardAxes = {"dp"};
  bucket.states = {{"gradient_slice", plan::StateRole::gradientSlice, plan::DType::f32, true, 0}};
  return plan;
}

TEST(BucketBuffer, EachRankHasASliceOfEachUnit) {
  const plan::Plan plan = planOfUnits();
  const plan::Bucket &bucket = plan.stages[0].buckets[0];
  std::vector<std::vector<float>> memory(2, std::vector<float>(kElements / 2));
  for (int64_t e = 0; e < kElements; ++e)
    memory[size_t(e % 8 / 4)][size_t(e / 8 * 4 + e % 4)] = float(e);
  std::vector<std::byte *> arenas;
  for (std::vector<float> &floats : memory)
    arenas.push_back(reinterpret_cast<std::byte *>(floats.data()));
  std::vector<float> expected(kElements), found(kElements);
  std::iota(expected.begin(), expected.end(), 0.0f);
  for (int64_t rank = 0; rank < 2; ++rank) {
    const BucketBuffer buffer(plan, bucket, rank, stateNamed("gradient_slice"), arenas);
    buffer.read({0, kElements}, found.data());
    EXPECT_EQ(found, expected);
    for (int64_t unit = 0; unit < kUnits; ++unit) {
      const BucketRange own = buffer.ownPart({unit * 8 + 1, 6});
      EXPECT_EQ(own.begin, unit * 8 + (rank == 0 ? 1 : 4));
      EXPECT_EQ(own.count, 3);
      EXPECT_EQ(*reinterpret_cast<const float *>(buffer.data(own.begin)), float(own.begin));
    }
  }
}

TEST(BucketBuffer, ARankWritesItsSlicesAlone) {
  const plan::Plan plan = planOfUnits();
  std::vector<std::vector<float>> memory(2, std::vector<float>(kElements / 2, -1));
  std::vector<std::byte *> arenas;
  for (std::vector<float> &floats : memory)
    arenas.push_back(reinterpret_cast<std::byte *>(floats.data()));
  const std::vector<float> values = {10, 11, 12, 13, 14, 15, 16, 17};
  BucketBuffer(plan, plan.stages[0].buckets[0], 1, stateNamed("gradient_slice"), arenas).write({16, 8}, values.data());
  EXPECT_EQ(memory[0], std::vector<float>(kElements / 2, -1));
  EXPECT_EQ(memory[1], (std::vector<float>{-1, -1, -1, -1, -1, -1, -1, -1, 14, 15, 16, 17}));
}

} // namespace
} // namespace mgc::test
