// Matrix products by oneDNN's matmul primitive: of bf16 for processors that multiply bf16 themselves, of f32 where that
// is not its sgemm again.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Bf16.h"

namespace mgc {

// Whether the processor has AVX512-BF16 or AMX, and the system lets oneDNN use it.
bool multipliesBf16();
// Whether oneDNN's matmul of f32 is code of its own: with AVX-512.
bool hasMatmul();

// As bf16Gemm and gemm; sizes are positive. False, and nothing is written, where oneDNN has no such primitive. Makes
// one for each kind of matrix product, in about 0.4 ms, and keeps the 512 that were used last; a call allocates a few
// handles. Throws std::bad_alloc.
bool nativeGemm(const plan::Gemm &gemm, const Bf16 *a, const Bf16 *b, void *c, int threads);
bool matmulGemm(const plan::Gemm &gemm, const float *a, const float *b, float *c, int threads);

} // namespace mgc
