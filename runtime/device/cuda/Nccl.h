// Nccl: the functions of libnccl that the plugin uses.
#pragma once

#include "runtime/device/cuda/Library.h"

#include <nccl.h>

// clang-format off
#define MGC_NCCL_FUNCTIONS(F) \
  F(ncclGetVersion) F(ncclGetErrorString) F(ncclGetLastError) F(ncclGetUniqueId) \
  F(ncclCommInitRankConfig) F(ncclCommFinalize) F(ncclCommDestroy) F(ncclCommAbort) \
  F(ncclCommGetAsyncError) F(ncclAllReduce) F(ncclAllGather) F(ncclReduceScatter) F(ncclSend) \
  F(ncclRecv) F(ncclGroupStart) F(ncclGroupEnd)
// clang-format on

namespace mgc::cuda {

struct Nccl {
  MGC_NCCL_FUNCTIONS(MGC_FUNCTION_FIELD)
  int version = 0; // 22809: 2.28.9

  static Result<const Nccl *> get(); // opened once
};

} // namespace mgc::cuda
