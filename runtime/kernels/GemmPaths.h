// The ways to divide a product into library calls: which is fastest differs by shape, threads and processor.
#pragma once

#include "runtime/kernels/Gemm.h"

#include <span>

namespace mgc {

struct GemmPathRow {
  plan::GemmPath path;
  bool (*applies)(const plan::Gemm &gemm, int threads); // whether it is another way than `whole`
  // C's rows lie one after another.
  void (*run)(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int threads);
};

// All but plan::GemmPath::rule. The first applies always.
std::span<const GemmPathRow> gemmPaths();

// That which plan::GemmPath::rule stands for.
const GemmPathRow &gemmRule(const plan::Gemm &gemm, int threads);

// That which gemm.path names; the first where it does not apply, so a plan runs with any number of threads.
const GemmPathRow &gemmPathOf(const plan::Gemm &gemm, int threads);

} // namespace mgc
