// Matrix products of bf16. By oneDNN's own where the processor multiplies bf16 (GemmNative.h) and that is
// faster; else panels of the operands become f32 in scratch memory, and C is rounded once, when its sum is complete.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Bf16.h"

namespace mgc {

// The matrix product that bf16Gemm uses. Both products sum in f32, in different orders: their bits differ.
enum class Bf16Product {
  panels, // panels converted to f32
  native  // oneDNN's own, where the processor has one
};
// For all threads; to be called while none multiplies. At first it is native on processors that multiply bf16.
void setBf16Product(Bf16Product product);
Bf16Product bf16Product();

// As gemm() of CpuGemm.h, with gemm.inputType bf16. gemm.path says whether threads divide rows or columns; otherwise it
// is the longer side.
void bf16Gemm(const plan::Gemm &gemm, const Bf16 *a, const Bf16 *b, void *c, int threads);

// The matrix product by panels, on every processor. Equal bits for equal paths and thread counts. Each thread keeps at
// most 3 MiB.
void panelGemm(const plan::Gemm &gemm, const Bf16 *a, const Bf16 *b, void *c, int threads);

} // namespace mgc
