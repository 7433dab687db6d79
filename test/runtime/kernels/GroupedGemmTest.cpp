// Both forms against sums in double: groups without rows, all rows in one group, rows left over, wrong counts.
#include "runtime/kernels/GroupedGemm.h"

#include "test/runtime/kernels/KernelData.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

using namespace mgc;
using namespace mgc::test;
using Form = plan::GroupedGemm::Form;
using Counts = std::vector<int32_t>;

namespace {

// Rows that no group has are NaN.
void poison(std::vector<float> &values, int64_t rows, int64_t columns) {
  std::fill(values.begin() + rows * columns, values.end(), NAN);
}

struct Operands {
  explicit Operands(const plan::GroupedGemm &gemm) {
    const bool isSums = gemm.form == Form::sums;
    a = randomFloats(gemm.rows * (isSums ? gemm.m : gemm.k), 1);
    b = randomFloats(isSums ? gemm.rows * gemm.n : gemm.groups * gemm.k * gemm.n, 2);
    c = randomFloats(isSums ? gemm.groups * gemm.m * gemm.n : gemm.rows * gemm.n, 3);
  }
  std::vector<float> a, b, c;
};

void check(const plan::GroupedGemm &gemm, const Counts &counts, int threads) {
  Operands to(gemm);
  const bool isSums = gemm.form == Form::sums;
  const int64_t used = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  poison(to.a, used, isSums ? gemm.m : gemm.k);
  if (isSums)
    poison(to.b, used, gemm.n);
  const std::vector<double> wanted = exactGroups(gemm, to.a, to.b, to.c, counts);
  ASSERT_TRUE(groupedGemm(gemm, to.a.data(), to.b.data(), counts.data(), to.c.data(), threads).isOk());
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(to.c[i], wanted[i], 8e-6 * std::sqrt(double(isSums ? gemm.rows : gemm.k) + 1))
        << gemm.sizes() << " with " << threads << " threads at " << i;
}

const Counts kCounts[] = {{3, 4, 5}, {0, 12, 0}, {0, 0, 0}, {1, 0, 1}, {12, 0, 0}, {0, 0, 12}};

} // namespace

TEST(GroupedGemm, rowsByAMatrixOfTheirGroup) {
  for (const Counts &counts : kCounts)
    for (bool transposeB : {false, true})
      for (int threads : {1, 4})
        check({.groups = 3, .rows = 12, .n = 7, .k = 5, .transposeB = transposeB}, counts, threads);
}

TEST(GroupedGemm, sumsOverTheRowsOfAGroup) {
  for (const Counts &counts : kCounts)
    for (bool accumulate : {false, true})
      for (int threads : {1, 4})
        check({.form = Form::sums, .groups = 3, .rows = 12, .m = 5, .n = 7, .accumulate = accumulate}, counts, threads);
}

TEST(GroupedGemm, oneElement) {
  check({.groups = 2, .rows = 2, .n = 1, .k = 1}, {1, 1}, 1);
  check({.form = Form::sums, .groups = 2, .rows = 2, .m = 1, .n = 1}, {0, 2}, 1);
}

// Operands of bf16 give the f32 product of their values.
TEST(GroupedGemm, bf16) {
  const plan::GroupedGemm wide{.groups = 2, .rows = 9, .n = 6, .k = 4};
  plan::GroupedGemm narrow = wide;
  narrow.inputType = plan::DType::bf16;
  Operands to(wide);
  const std::vector<Bf16> a = narrowed(to.a), b = narrowed(to.b);
  to.a = widened(a), to.b = widened(b);
  const Counts counts = {2, 5};
  const std::vector<double> wanted = exactGroups(wide, to.a, to.b, to.c, counts);
  ASSERT_TRUE(groupedGemm(narrow, a.data(), b.data(), counts.data(), to.c.data(), 2).isOk());
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(to.c[i], wanted[i], 4e-6) << i;
}

TEST(GroupedGemm, refusesWrongCountsAndWritesNothing) {
  const plan::GroupedGemm gemm{.groups = 3, .rows = 12, .n = 2, .k = 2};
  const auto refusal = [&](const Counts &counts) {
    Operands to(gemm);
    const std::vector<float> before = to.c;
    const Status status = groupedGemm(gemm, to.a.data(), to.b.data(), counts.data(), to.c.data(), 1);
    EXPECT_EQ(to.c, before);
    return status.message();
  };
  EXPECT_EQ(refusal({6, -1, 2}), "group 1 of 3 has -1 rows, 5 with those before it; expected from 0 to 12 in all");
  EXPECT_EQ(refusal({6, 3, 4}), "group 2 of 3 has 4 rows, 13 with those before it; expected from 0 to 12 in all");
  EXPECT_EQ(refusal({INT32_MAX, INT32_MAX, 2}),
            "group 0 of 3 has 2147483647 rows, 2147483647 with those before it; expected from 0 to 12 in all");
}
