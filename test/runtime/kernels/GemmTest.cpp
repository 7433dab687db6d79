// Every transposition, accumulation and shape against sums in double.
#include "runtime/kernels/GemmPaths.h"

#include "runtime/base/Philox.h"
#include "runtime/plan/Fields.h"

#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <vector>

using namespace mgc;

static std::vector<float> randomVector(int64_t count, uint64_t seed) {
  std::vector<float> values(count);
  normalRange(seed, 0, 0, count, 1, values.data());
  return values;
}

static std::string describe(const plan::Gemm &g) {
  return fmt::format("{} by {}", sizesOf(g), nameOf(g.path));
}

static void check(const plan::Gemm &g, int threads) {
  const std::vector<float> a = randomVector(g.m * g.k, 1), b = randomVector(g.k * g.n, 2),
                           before = randomVector(g.m * g.n, 3);
  std::vector<float> c = before;
  gemm(g, a.data(), b.data(), c.data(), threads);
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      double expected = g.accumulate ? before[i * g.n + j] : 0;
      for (int64_t p = 0; p < g.k; ++p)
        expected += static_cast<double>(a[g.transposeA ? p * g.m + i : i * g.k + p]) *
                    b[g.transposeB ? j * g.k + p : p * g.n + j];
      ASSERT_NEAR(c[i * g.n + j], expected, 2e-6 * std::sqrt(g.k + 1.0) * 4)
          << describe(g) << " with " << threads << " threads at " << i << "," << j;
    }
}

TEST(Gemm, allShapes) {
  const int64_t shapes[][3] = {{1, 1, 1},    {1, 1, 1000},  {1, 1, 7},    {1, 17, 33}, {17, 1, 33},
                               {5, 3, 1},    {2, 2, 2},     {7, 9, 11},   {64, 64, 8}, {1, 64, 64},
                               {64, 1, 300}, {129, 65, 67}, {3, 200, 4},  {0, 3, 2},   {3, 0, 2},
                               {3, 2, 0},    {1, 1, 0},     {96, 80, 513}};
  for (const auto &shape : shapes)
    for (int flags = 0; flags < 8; ++flags)
      for (int threads : {1, 4})
        check({shape[0], shape[1], shape[2], (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0}, threads);
}

TEST(Gemm, everyPathOnRaggedSizes) {
  const int64_t shapes[][3] = {{7, 9, 11},    {41, 83, 19},   {100, 37, 5}, {17, 161, 64},
                               {41, 83, 601}, {401, 50, 300}, {90, 90, 0}};
  for (const GemmPathRow &row : gemmPaths())
    for (const auto &shape : shapes)
      for (int flags = 0; flags < 8; ++flags)
        for (int threads = 1; threads <= 5; ++threads)
          check(
              {shape[0], shape[1], shape[2], (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, row.path},
              threads);
}

TEST(Gemm, everyNameButRuleIsARowAndTheFirstAppliesAlways) {
  const plan::Gemm one = {.m = 1, .n = 1, .k = 1};
  EXPECT_TRUE(gemmPaths()[0].applies(one, 1));
  for (size_t i = 0; i < gemmPaths().size(); ++i)
    EXPECT_EQ(gemmPaths()[i].path, static_cast<plan::GemmPath>(i + 1));
  EXPECT_EQ(gemmPaths().size() + 1, plan::enumNames<plan::GemmPath>.size());
}

TEST(Gemm, takesTheNamedPathWhereItApplies) {
  const plan::Gemm large = {.m = 64, .n = 64, .k = 64};
  for (const GemmPathRow &row : gemmPaths()) {
    plan::Gemm named = large;
    named.path = row.path;
    EXPECT_EQ(gemmPathOf(named, 2).path, row.path);
    EXPECT_EQ(gemmPathOf(named, 1).path, gemmPaths()[0].path) << "one thread has one way";
  }
  for (int threads : {1, 2})
    EXPECT_EQ(&gemmPathOf(large, threads), &gemmRule(large, threads));
}

TEST(Gemm, ruleDividesTheLongerSideIntoLongParts) {
  const auto rule = [](int64_t m, int64_t n, int64_t k, bool transposeA, int threads) {
    return gemmRule({.m = m, .n = n, .k = k, .transposeA = transposeA}, threads).path;
  };
  EXPECT_EQ(rule(1024, 3072, 768, false, 2), plan::GemmPath::columns);
  EXPECT_EQ(rule(1024, 768, 3072, false, 2), plan::GemmPath::rows);
  EXPECT_EQ(rule(3072, 768, 1024, true, 2), plan::GemmPath::rows);
  EXPECT_EQ(rule(1024, 500, 1024, true, 2), plan::GemmPath::whole) << "parts would have to be packed";
  EXPECT_EQ(rule(1024, 500, 1024, false, 2), plan::GemmPath::rows);
  EXPECT_EQ(rule(256, 768, 1024, true, 2), plan::GemmPath::columns) << "one call is slow";
  EXPECT_EQ(rule(1024, 3072, 768, false, 8), plan::GemmPath::whole) << "parts are short";
  EXPECT_EQ(rule(3072, 1024, 768, false, 1), plan::GemmPath::columns) << "for the calls of few k";
  EXPECT_EQ(rule(3072, 1024, 64, false, 1), plan::GemmPath::whole) << "k is few";
  EXPECT_EQ(rule(128, 768, 1024, true, 1), plan::GemmPath::columns);
}

TEST(Gemm, longDotIsExactToRounding) {
  const int64_t k = 1 << 20;
  const std::vector<float> a(k, 0.1f), b(k, 1.0f);
  float c = 0;
  gemm({.m = 1, .n = 1, .k = k}, a.data(), b.data(), &c, 1);
  EXPECT_EQ(c, static_cast<float>(static_cast<double>(0.1f) * k));
}

TEST(Gemm, sameBitsEveryTime) {
  for (const GemmPathRow &row : gemmPaths())
    for (int threads : {1, 2, 4}) {
      const plan::Gemm g = {.m = 70, .n = 80, .k = 3000, .transposeA = true, .path = row.path};
      const std::vector<float> a = randomVector(g.m * g.k, 1), b = randomVector(g.k * g.n, 2);
      std::vector<float> first(g.m * g.n), again(g.m * g.n);
      gemm(g, a.data(), b.data(), first.data(), threads);
      for (int i = 0; i < 5; ++i) {
        gemm(g, a.data(), b.data(), again.data(), threads);
        EXPECT_EQ(first, again) << describe(g) << ", " << threads << " threads";
      }
    }
}

TEST(Gemm, stridedPartsLeaveTheRestAlone) {
  const int64_t m = 5, n = 6, k = 7, stride = 20;
  const std::vector<float> a = randomVector(m * stride, 1), b = randomVector(k * stride, 2);
  std::vector<float> c(m * stride, 9);
  stridedGemm({.m = m, .n = n, .k = k}, {a.data(), stride}, {b.data(), stride}, c.data(), stride);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < stride; ++j) {
      double expected = j < n ? 0 : 9;
      for (int64_t p = 0; p < k && j < n; ++p)
        expected += static_cast<double>(a[i * stride + p]) * b[p * stride + j];
      EXPECT_NEAR(c[i * stride + j], expected, 1e-5);
    }
}
