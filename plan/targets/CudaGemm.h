// Matrix products on NVIDIA GPUs: what the compiler must know of them, and the runtime too.
#pragma once

#include "plan/instructions/GemmInstruction.h"

namespace mgc {

// cuBLASLt wants its workspace at a multiple of this, a plan gives multiples of plan::kAlignment.
inline constexpr int64_t kCudaWorkspaceAlignment = 256;

// The workspace of a matrix product of any size: as NVIDIA recommends for Hopper (cuBLAS, "cublasSetWorkspace"), and
// room to align it.
inline constexpr int64_t kCudaGemmWorkspaceBytes = (int64_t(32) << 20) + kCudaWorkspaceAlignment - plan::kAlignment;

} // namespace mgc
