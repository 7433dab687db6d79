// Products of bf16 matrices by oneDNN's primitive, for processors that multiply bf16 themselves.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Bf16.h"

namespace mgc {

// Whether the processor has AVX512-BF16 or AMX, and the system lets oneDNN use it.
bool multipliesBf16();

// As bf16Gemm; sizes are positive. False, and nothing is written, where oneDNN has no such primitive. Makes one for each
// kind of product and keeps it; a call allocates a few handles.
bool nativeGemm(const plan::Gemm &gemm, const Bf16 *a, const Bf16 *b, void *c, int threads);

} // namespace mgc
