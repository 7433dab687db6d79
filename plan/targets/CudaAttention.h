// Attention on NVIDIA GPUs: what the compiler must know of it, and the plugin too.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

namespace mgc {

// Why cuDNN is not asked for this attention: what its kernels do not take, or do otherwise than a plan says. Ok: it is asked, and
// the plugin's own kernels, which take everything and use no tensor cores, step in where it has none.
Status cudnnTakes(const plan::Attention &attention);

// Parts of a workspace, in bytes, each a multiple of 256: the plugin's use of it.
struct CudaAttentionWorkspace {
  int64_t rows = 0;  // f32 [b,g,r,s]: lse in cuDNN's order
  int64_t delta = 0; // f32 [b,g,r,s]; backward
  int64_t dqSum = 0; // f32 [b,g,r,s,d]; backward, where equal bits are not asked for
  explicit CudaAttentionWorkspace(const plan::Attention &attention, bool deterministic);
};

// Bytes that are enough for cuDNN, where it is asked, and for the plugin's own kernels. A function of the sizes alone:
//   forward:   the rows above and 64 KiB
//   backward:  the parts above and 64 KiB; 2 b g r s t, s and t rounded up to 128, for the gradients of scores in bf16, of which
//              equal bits are made; b g r t d of bf16 for dk and dv each, before they are summed over r (f32 where equal bits are
//              not asked for)
// cuDNN 9.19 asks for exactly these tensors and 128 to 512 bytes (test/runtime/device/cuda/CudnnAttentionTest.cpp).
// Sizes beyond 64 bits give the largest int64_t.
int64_t cudaAttentionWorkspaceBytes(const plan::Attention &attention, bool deterministic = true);

} // namespace mgc
