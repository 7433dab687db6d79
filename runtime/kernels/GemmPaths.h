// The options to divide a matrix product into library calls: which is fastest differs by shape, threads and processor.
#pragma once

#include "runtime/kernels/CpuGemm.h"

#include <span>

namespace mgc {

struct GemmPathRow {
  plan::GemmPath path;
  bool (*applies)(const plan::Gemm &gemm, int threads); // whether it differs from `whole`
  // The rows of A, B and C lie one after another.
  void (*run)(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads);
};

// All but plan::GemmPath::rule. The first applies always.
std::span<const GemmPathRow> gemmPaths();

// The path that plan::GemmPath::rule stands for.
const GemmPathRow &gemmRule(const plan::Gemm &gemm, int threads);

// The most of k in one call by gemmInDepth: with so few rows of B packed, the operands that a thread works on stay in
// its second-level cache.
inline constexpr int64_t kGemmDepth = 256;

// The matrix product by calls of at most kGemmDepth of k each, all by the calling thread. C's rows lie strideC apart.
void gemmInDepth(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int64_t strideC);

// Part `index` of `parts` about equal ones of [0, size), which begin at multiples of `unit`.
struct GemmPart {
  int64_t begin = 0, count = 0;
};
GemmPart partOf(int64_t size, int64_t unit, int64_t index, int64_t parts);

// Units of parts: columns begin at a cache line of f32, rows and k where the library's own blocks may.
inline constexpr int64_t kGemmRowUnit = 8, kGemmColumnUnit = 16, kGemmDepthUnit = 8;

// The path that gemm.path names; the first one where it does not apply, so a plan runs with any number of threads.
const GemmPathRow &gemmPathOf(const plan::Gemm &gemm, int threads);

} // namespace mgc
