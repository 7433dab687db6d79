// How a kernel says what is wrong in its data, and sums that all lanes of a warp get.
#pragma once

#include "runtime/device/cuda/RowArguments.h"

namespace mgc::cuda {

constexpr unsigned kAll = 0xFFFFFFFF;

// Ends the kernel, and with it the device. If several threads find an error, the first one reports it; the others wait
// for that, as a trap ends all, but not longer than a moment, in which the first one may have ended.
template <typename... Numbers> __device__ void stop(uint64_t report, KernelReport::Kind kind, Numbers... values) {
  auto *to = reinterpret_cast<KernelReport *>(report);
  if (atomicCAS(&to->isTaken, 0u, 1u) == 0) {
    const int64_t numbers[] = {int64_t(values)...};
    for (int i = 0; i < int(sizeof...(Numbers)); ++i)
      *const_cast<volatile int64_t *>(to->numbers + i) = numbers[i];
    __threadfence_system();
    *const_cast<volatile uint32_t *>(&to->kind) = kind;
    __threadfence_system();
  } else {
    for (int turn = 0; turn < 1 << 16 && *const_cast<volatile uint32_t *>(&to->kind) == KernelReport::none; ++turn) {
    }
  }
  __trap();
}

__device__ inline int lane() { return threadIdx.x % 32; }
__device__ inline int warp() { return threadIdx.x / 32; }

__device__ inline int64_t sumOfWarp(int64_t value) {
  for (int apart = 16; apart > 0; apart /= 2)
    value += __shfl_xor_sync(kAll, value, apart);
  return value;
}

__device__ inline int leastOfWarp(int value) {
  for (int apart = 16; apart > 0; apart /= 2)
    value = min(value, __shfl_xor_sync(kAll, value, apart));
  return value;
}

// The sum of the values of this lane and of those before it.
__device__ inline int64_t sumUpToLane(int64_t value) {
  for (int apart = 1; apart < 32; apart *= 2) {
    const int64_t before = __shfl_up_sync(kAll, value, apart);
    value += lane() >= apart ? before : 0;
  }
  return value;
}

} // namespace mgc::cuda
