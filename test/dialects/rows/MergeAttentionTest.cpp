// Attention to two sets of keys, merged: the softmax over both, also where a query sees nothing of one or of either.
#include "test/dialects/rows/OpKernel.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr int kD = 21;
const std::string kO = f32("s:6 d:21"), kLse = f32("s:6");

// Log-sum-exps: of like sizes, far apart in both orders, one or both of nothing.
const std::vector<float> kLse1 = {0.5f, 300, -80, kNothing, 2, kNothing}, kLse2 = {-1, -20, 90, 3, kNothing, kNothing};

double mergedLse(int row) {
  const double a = kLse1[row], b = kLse2[row], most = std::max(a, b);
  return std::isinf(most) ? most : most + std::log(std::exp(a - most) + std::exp(b - most));
}

TEST(MergeAttention, IsTheSoftmaxOverBoth) {
  Buffer o1(randomFloats(6 * kD, 1, -2, 3)), o2(randomFloats(6 * kD, 2));
  for (int row = 0; row < 6; ++row) // as attention leaves the rows of queries that see nothing
    for (int i = 0; i < kD; ++i) {
      o1[row * kD + i] *= kLse1[row] != kNothing;
      o2[row * kD + i] *= kLse2[row] != kNothing;
    }
  auto merged =
      runRowOps(oneOp("merge_attention", {kO, kLse, kO, kLse}, {kO, kLse}), {o1, Buffer(kLse1), o2, Buffer(kLse2)});
  std::vector<double> os, lses;
  for (int row = 0; row < 6; ++row) {
    const double lse = mergedLse(row);
    lses.push_back(lse);
    for (int i = 0; i < kD; ++i)
      os.push_back(std::isinf(lse)
                       ? 0
                       : std::exp(kLse1[row] - lse) * o1[row * kD + i] + std::exp(kLse2[row] - lse) * o2[row * kD + i]);
  }
  expectClose(merged[0], os, 2e-6, "o");
  EXPECT_EQ(merged[1][5], kNothing);
  merged[1][5] = 0, lses[5] = 0; // the difference of two infinities is none
  expectClose(merged[1], lses, 2e-6, "lse");
}

// The result alone is rounded: once.
TEST(MergeAttention, RoundsTheResult) {
  const std::string rounded = "tensor<6x21xbf16, #mg.layout<s, d>>";
  Buffer o1(randomFloats(6 * kD, 1)), o2(randomFloats(6 * kD, 2)), lse1(randomFloats(6, 3)), lse2(randomFloats(6, 4));
  auto exact = runRowOps(oneOp("merge_attention", {kO, kLse, kO, kLse}, {kO, kLse}), {o1, lse1, o2, lse2});
  auto merged = runRowOps(oneOp("merge_attention", {kO, kLse, kO, kLse}, {rounded, kLse}), {o1, lse1, o2, lse2});
  for (int i = 0; i < 6 * kD; ++i)
    EXPECT_EQ(merged[0].halves()[i], rowgen::test::toBf16(exact[0][i])) << i;
}

} // namespace
} // namespace mgc::test
