// Every transposition, accumulation and shape against sums in double.
#include "runtime/kernels/GemmPaths.h"

#include "plan/json/Fields.h"
#include "runtime/kernels/GemmNative.h"
#include "test/runtime/kernels/KernelData.h"

#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>
#include <vector>

using namespace mgc;
using namespace mgc::test;

static std::string describe(const plan::Gemm &g) { return fmt::format("{} by {}", g.sizes(), nameOf(g.path)); }

static void check(const plan::Gemm &g, int threads) {
  const std::vector<float> a = randomFloats(g.m * g.k, 1), b = randomFloats(g.k * g.n, 2),
                           before = randomFloats(g.m * g.n, 3);
  std::vector<float> c = before;
  gemm(g, a.data(), b.data(), c.data(), threads);
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      const double expected = (g.accumulate ? before[i * g.n + j] : 0) + exactSum(g, a, b, i, j).value;
      ASSERT_NEAR(c[i * g.n + j], expected, 2e-6 * std::sqrt(g.k + 1.0) * 4)
          << describe(g) << " with " << threads << " threads at " << i << "," << j;
    }
}

TEST(Gemm, allShapes) {
  const int64_t shapes[][3] = {{1, 1, 1},   {1, 1, 1000}, {1, 1, 7},   {1, 17, 33}, {17, 1, 33},  {5, 3, 1},
                               {2, 2, 2},   {7, 9, 11},   {64, 64, 8}, {1, 64, 64}, {64, 1, 300}, {129, 65, 67},
                               {3, 200, 4}, {0, 3, 2},    {3, 0, 2},   {3, 2, 0},   {1, 1, 0},    {96, 80, 513}};
  for (const auto &[m, n, k] : shapes)
    for (const plan::Gemm &form : formsOf(m, n, k))
      for (int threads : {1, 4})
        check(form, threads);
}

TEST(Gemm, everyPathOnRaggedSizes) {
  const int64_t shapes[][3] = {{7, 9, 11},    {41, 83, 19},   {100, 37, 5}, {17, 161, 64},
                               {41, 83, 601}, {401, 50, 300}, {90, 90, 0}};
  for (const GemmPathRow &row : gemmPaths())
    for (const auto &[m, n, k] : shapes)
      for (plan::Gemm form : formsOf(m, n, k))
        for (int threads = 1; threads <= 5; ++threads) {
          form.path = row.path;
          check(form, threads);
        }
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

TEST(Gemm, ruleDividesWhatSgemmWouldNotPack) {
  const auto rule = [](int64_t m, int64_t n, int64_t k, bool transposeA, int threads) {
    return gemmRule({.m = m, .n = n, .k = k, .transposeA = transposeA}, threads).path;
  };
  const plan::GemmPath packed = hasMatmul() ? plan::GemmPath::whole : plan::GemmPath::columns;
  EXPECT_EQ(rule(256, 768, 1024, true, 2), packed);
  EXPECT_EQ(rule(128, 768, 1024, true, 1), packed);
  EXPECT_EQ(rule(128, 768, 64, true, 1), plan::GemmPath::whole) << "k is few";
  EXPECT_EQ(rule(256, 1024, 768, true, 1), plan::GemmPath::whole) << "rows of 4 KiB";
  EXPECT_EQ(rule(256, 768, 1024, false, 2), plan::GemmPath::whole);
  EXPECT_EQ(rule(1024, 3072, 768, true, 2), plan::GemmPath::whole);
}

// Shapes on both sides of where sgemm and matmul meet.
TEST(Gemm, oneCallOfEitherKind) {
  const int64_t shapes[][3] = {{16, 400, 41},    {15, 400, 41},    {16, 400, 40},   {1024, 48, 257},
                               {1024, 512, 256}, {1024, 513, 256}, {1023, 48, 256}, {1024, 1024, 17}};
  for (const auto &[m, n, k] : shapes)
    for (const plan::Gemm &form : formsOf(m, n, k))
      for (int threads : {1, 2})
        check(form, threads);
}

// The bits tell which of the two it was.
TEST(Gemm, takesMatmulWhereSgemmDoesNotPack) {
  if (!hasMatmul())
    GTEST_SKIP() << "no AVX-512";
  const auto expectMatmul = [](const plan::Gemm &g, bool isMatmul) {
    const std::vector<float> a = randomFloats(g.m * g.k, 1), b = randomFloats(g.k * g.n, 2);
    std::vector<float> c(g.m * g.n), varying = c, matmul = c, sgemm = c;
    gemm(g, a.data(), b.data(), c.data(), 1);
    gemmOfVaryingSizes(g, a.data(), b.data(), varying.data(), 1);
    ASSERT_TRUE(matmulGemm(g, a.data(), b.data(), matmul.data(), 1));
    stridedGemm(g, {a.data(), g.transposeA ? g.m : g.k}, {b.data(), g.transposeB ? g.k : g.n}, sgemm.data(), g.n);
    ASSERT_NE(matmul, sgemm) << describe(g);
    EXPECT_EQ(c, isMatmul ? matmul : sgemm) << describe(g);
    EXPECT_EQ(varying, sgemm) << describe(g);
  };
  expectMatmul({.m = 64, .n = 400, .k = 1500, .transposeB = true}, true);
  expectMatmul({.m = 64, .n = 400, .k = 1500}, false);
  expectMatmul({.m = 1024, .n = 100, .k = 1500, .transposeA = true}, true);
  expectMatmul({.m = 1000, .n = 100, .k = 1500, .transposeA = true}, false);
}

static int64_t residentPages() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident;
}

// A primitive has a tenth of a MiB of code.
TEST(Gemm, productsThatDoNotComeAgainAreNotKept) {
  if (!hasMatmul() || MGC_TEST_SANITIZED)
    GTEST_SKIP() << "no AVX-512, or sanitizers, which keep what is freed";
  const std::vector<float> a = randomFloats(2000 * 64, 1), b = randomFloats(64 * 64, 2);
  std::vector<float> c(2000 * 64);
  const auto run = [&](int64_t m) {
    ASSERT_TRUE(matmulGemm({.m = m, .n = 64, .k = 64, .transposeB = true}, a.data(), b.data(), c.data(), 1));
  };
  for (int64_t m = 100; m < 700; ++m)
    run(m);
  const int64_t before = residentPages();
  for (int64_t m = 700; m < 2000; ++m)
    run(m);
  EXPECT_LT((residentPages() - before) * sysconf(_SC_PAGESIZE), 30 << 20); // 150 MB if all were kept
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
      const plan::Gemm g = {.m = 70, .n = 80, .k = 3000, .transposeB = true, .path = row.path};
      const std::vector<float> a = randomFloats(g.m * g.k, 1), b = randomFloats(g.k * g.n, 2);
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
  const std::vector<float> a = randomFloats(m * stride, 1), b = randomFloats(k * stride, 2);
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

// --- bf16 --------------------------------------------------------------------------------------------------

// C, of either type, read as f32.
class Output {
public:
  Output(plan::DType type, const std::vector<Bf16> &values) : type_(type), narrow_(values), wide_(widened(values)) {}
  void *data() { return type_ == plan::DType::bf16 ? static_cast<void *>(narrow_.data()) : wide_.data(); }
  float at(int64_t i) const { return type_ == plan::DType::bf16 ? toFloat(narrow_[i]) : wide_[i]; }
  bool operator==(const Output &) const = default;

private:
  plan::DType type_;
  std::vector<Bf16> narrow_;
  std::vector<float> wide_;
};

using Bf16Product = void (*)(const plan::Gemm &, const void *, const void *, void *, int);

// Products of bf16 are exact in f32. A sum of terms t in any order, k + 1 of them with C, is off by at most
// k u (sum of |t|), u = 2^-24; rounding it to bf16 adds 2^-8 of the result (Higham, Accuracy and Stability, 3.1). A
// large product is checked at every eleventh row and seventh column, and at the last.
static void checkBf16(plan::Gemm g, int threads, Bf16Product product = gemm) {
  g.inputType = plan::DType::bf16;
  const std::vector<Bf16> a = randomBf16(g.m * g.k, 1), b = randomBf16(g.k * g.n, 2), before = randomBf16(g.m * g.n, 3);
  Output c(g.outputType, before);
  product(g, a.data(), b.data(), c.data(), threads);
  const bool isLarge = g.m * g.n * g.k > 1 << 24;
  for (int64_t i = (g.m - 1) % (isLarge ? 11 : 1); i < g.m; i += isLarge ? 11 : 1)
    for (int64_t j = (g.n - 1) % (isLarge ? 7 : 1); j < g.n; j += isLarge ? 7 : 1) {
      const double old = g.accumulate ? toFloat(before[i * g.n + j]) : 0;
      const auto [product, magnitude] = exactSum(g, a, b, i, j);
      const double expected = old + product, sizes = std::abs(old) + magnitude;
      const double sum = double(g.k) * 0x1p-24 * sizes;
      const double rounding = g.outputType == plan::DType::bf16 ? 0x1p-8 * (std::abs(expected) + sum) : 0;
      ASSERT_NEAR(c.at(i * g.n + j), expected, sum + rounding)
          << describe(g) << " with " << threads << " threads at " << i << "," << j;
    }
}

static void eachBf16(int64_t m, int64_t n, int64_t k, const auto &body) {
  for (plan::Gemm form : formsOf(m, n, k))
    for (plan::DType output : {plan::DType::f32, plan::DType::bf16}) {
      form.outputType = output;
      body(form);
    }
}

TEST(GemmBf16, allShapes) {
  const int64_t shapes[][3] = {{1, 1, 1},     {1, 1, 1000},  {1, 17, 33},  {17, 1, 33}, {5, 3, 1},
                               {7, 9, 11},    {0, 3, 2},     {3, 0, 2},    {3, 2, 0},   {1, 1, 0},
                               {41, 83, 601}, {129, 65, 67}, {96, 80, 513}};
  for (const auto &[m, n, k] : shapes)
    for (int threads : {1, 4})
      eachBf16(m, n, k, [&](const plan::Gemm &g) { checkBf16(g, threads); });
}

TEST(GemmBf16, severalTilesAndPanels) {
  for (plan::GemmPath path : {plan::GemmPath::rule, plan::GemmPath::rows, plan::GemmPath::columns})
    eachBf16(530, 790, 270, [&](plan::Gemm g) {
      g.path = path;
      checkBf16(g, path == plan::GemmPath::rule ? 1 : 3);
    });
}

// A sum in f32 keeps each 1, and a sum in bf16 would not: 256 + 1 is 256 in bf16.
TEST(GemmBf16, sumsInF32AndRoundsOnce) {
  for (int64_t k : {600, 2000}) {
    const std::vector<Bf16> ones(k * 4, toBf16(1));
    std::vector<Bf16> c(16, toBf16(3));
    gemm({.m = 4, .n = 4, .k = k, .accumulate = true, .inputType = plan::DType::bf16, .outputType = plan::DType::bf16},
         ones.data(), ones.data(), c.data(), 1);
    for (Bf16 value : c)
      EXPECT_EQ(value, toBf16(float(k + 3)));
  }
}

TEST(GemmBf16, nanAndInfinityComeThrough) {
  std::vector<Bf16> a(9, toBf16(1)), b(9, toBf16(1)), c(9);
  a[0] = toBf16(std::numeric_limits<float>::quiet_NaN());
  b[1] = toBf16(std::numeric_limits<float>::infinity());
  gemm({.m = 3, .n = 3, .k = 3, .inputType = plan::DType::bf16, .outputType = plan::DType::bf16}, a.data(), b.data(),
       c.data(), 1);
  for (int64_t i = 0; i < 9; ++i) {
    if (i < 3)
      EXPECT_TRUE(std::isnan(toFloat(c[i]))) << i;
    else
      EXPECT_EQ(toFloat(c[i]), i % 3 == 1 ? std::numeric_limits<float>::infinity() : 3.0f) << i;
  }
}

TEST(GemmBf16, sameBitsEveryTime) {
  for (int threads : {1, 2, 4})
    for (plan::DType output : {plan::DType::f32, plan::DType::bf16}) {
      const plan::Gemm g = {
          .m = 70, .n = 80, .k = 3000, .transposeA = true, .inputType = plan::DType::bf16, .outputType = output};
      const std::vector<Bf16> a = randomBf16(g.m * g.k, 1), b = randomBf16(g.k * g.n, 2), zeros(g.m * g.n);
      Output first(output, zeros);
      gemm(g, a.data(), b.data(), first.data(), threads);
      for (int i = 0; i < 5; ++i) {
        Output again(output, zeros);
        gemm(g, a.data(), b.data(), again.data(), threads);
        EXPECT_TRUE(first == again) << describe(g) << ", " << threads << " threads";
      }
    }
}

// The processor's own products, made to be used whether the processor says that it has them or not.
TEST(GemmBf16, nativeWhereThereIsAPrimitive) {
  const plan::Gemm one = {.m = 8, .n = 8, .k = 8, .inputType = plan::DType::bf16};
  const std::vector<Bf16> zeros(64);
  std::vector<float> c(64);
  const bool isMade = nativeGemm(one, zeros.data(), zeros.data(), c.data(), 1);
  EXPECT_TRUE(isMade || !multipliesBf16()) << "a processor that has them has the primitive";
  if (!isMade)
    GTEST_SKIP() << "oneDNN makes no product of bf16 on this processor";
  const Bf16Product native = [](const plan::Gemm &g, const void *a, const void *b, void *to, int threads) {
    ASSERT_TRUE(nativeGemm(g, static_cast<const Bf16 *>(a), static_cast<const Bf16 *>(b), to, threads));
  };
  for (int threads : {1, 2})
    eachBf16(41, 83, 61, [&](const plan::Gemm &g) { checkBf16(g, threads, native); });
}
