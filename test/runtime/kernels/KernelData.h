// Numbers, and forms of products, that tests of kernels share.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Bf16.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace mgc::test {

inline std::vector<float> randomFloats(int64_t count, uint64_t seed) {
  std::vector<float> values(count);
  normalRange(seed, 0, 0, count, 1, values.data());
  return values;
}

inline std::vector<Bf16> narrowed(const std::vector<float> &values) {
  std::vector<Bf16> result(values.size());
  narrow(values.data(), int64_t(values.size()), result.data());
  return result;
}
inline std::vector<float> widened(const std::vector<Bf16> &values) {
  std::vector<float> result(values.size());
  widen(values.data(), int64_t(values.size()), result.data());
  return result;
}
inline std::vector<Bf16> randomBf16(int64_t count, uint64_t seed) { return narrowed(randomFloats(count, seed)); }

// A product with either operand transposed or not, added to C or not.
inline std::vector<plan::Gemm> formsOf(int64_t m, int64_t n, int64_t k) {
  std::vector<plan::Gemm> forms;
  for (int flags = 0; flags < 8; ++flags)
    forms.push_back({.m = m,
                     .n = n,
                     .k = k,
                     .transposeA = (flags & 1) != 0,
                     .transposeB = (flags & 2) != 0,
                     .accumulate = (flags & 4) != 0});
  return forms;
}

// An element of a product of f32 or bf16 in double, and the sum of its terms' magnitudes.
struct ExactSum {
  double value = 0, magnitude = 0;
};
template <typename T>
ExactSum exactSum(const plan::Gemm &g, const std::vector<T> &a, const std::vector<T> &b, int64_t i, int64_t j) {
  ExactSum sum;
  for (int64_t p = 0; p < g.k; ++p) {
    const double term = double(toFloat(a[g.transposeA ? p * g.m + i : i * g.k + p])) *
                        toFloat(b[g.transposeB ? j * g.k + p : p * g.n + j]);
    sum.value += term, sum.magnitude += std::abs(term);
  }
  return sum;
}

// The right C of a grouped product, in which `c` lay before.
inline std::vector<double> exactGroups(const plan::GroupedGemm &gemm, const std::vector<float> &a,
                                       const std::vector<float> &b, const std::vector<float> &c,
                                       const std::vector<int32_t> &counts) {
  const auto &[m, n, k] = std::tie(gemm.m, gemm.n, gemm.k);
  const bool isSums = gemm.form == plan::GroupedGemm::Form::sums;
  std::vector<double> result(c.begin(), c.end());
  if (isSums && !gemm.accumulate)
    std::ranges::fill(result, 0);
  int64_t row = 0;
  for (int64_t group = 0; group < gemm.groups; ++group)
    for (int64_t end = row + counts[group]; row < end; ++row)
      if (isSums)
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j)
            result[(group * m + i) * n + j] += double(a[row * m + i]) * b[row * n + j];
      else
        for (int64_t j = 0; j < n; ++j) {
          result[row * n + j] = 0;
          for (int64_t p = 0; p < k; ++p)
            result[row * n + j] +=
                double(a[row * k + p]) * b[group * k * n + (gemm.transposeB ? j * k + p : p * n + j)];
        }
  return result;
}

} // namespace mgc::test
