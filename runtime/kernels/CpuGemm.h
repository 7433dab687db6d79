// Matrix product, the library call behind plan::Gemm.
//   in:  row-major matrices A [m,k] (or [k,m]), B [k,n] (or [n,k]) of gemm.inputType; C [m,n] when accumulating
//   out: C = (accumulate ? C : 0) + op(A) op(B) of gemm.outputType; all sums in f32, rounded once
#pragma once

#include "plan/Plan.h"

namespace mgc {

// Uses up to `threads` threads, on the matrix product's path (GemmPaths.h). Equal bits for equal paths and thread
// counts. Any dimension may be 0: with k = 0, C becomes 0 or stays. A and B must not overlap C.
void gemm(const plan::Gemm &gemm, const void *a, const void *b, void *c, int threads);
// The same for sizes that may not come again. With f32, nothing is prepared for further matrix products of these sizes
// (GemmNative.h).
void gemmOfVaryingSizes(const plan::Gemm &gemm, const void *a, const void *b, void *c, int threads);

// The same on parts of larger f32 matrices: rows are `stride` elements apart, at least as long as a row. Uses as
// many threads as the calling thread was last given (setLibraryThreads).
struct Matrix {
  const float *data = nullptr;
  int64_t stride = 0;
};
void stridedGemm(const plan::Gemm &gemm, Matrix a, Matrix b, float *c, int64_t strideC);

// The library that computes matrix products, for people and for keys of measurements: "oneDNN 2.6.3".
std::string gemmLibrary();

} // namespace mgc
