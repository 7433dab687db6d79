// Elements of AttentionTensor.
#pragma once

#include "runtime/device/cuda/AttentionArguments.h"

namespace mgc::cuda {

__device__ inline float load(const AttentionArguments &a, const AttentionTensor &tensor, int64_t index) {
  if (a.isBf16)
    return __uint_as_float(uint32_t(reinterpret_cast<const uint16_t *>(tensor.address)[index]) << 16);
  return reinterpret_cast<const float *>(tensor.address)[index];
}

// To the nearest, ties to even; NaN stays NaN.
__device__ inline uint16_t roundToBf16(float value) {
  const uint32_t bits = __float_as_uint(value);
  return value != value ? uint16_t(bits >> 16 | 0x40) : uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

__device__ inline void store(const AttentionArguments &a, const AttentionTensor &tensor, int64_t index, float value) {
  if (a.writesBf16)
    reinterpret_cast<uint16_t *>(tensor.address)[index] = roundToBf16(value);
  else
    reinterpret_cast<float *>(tensor.address)[index] = value;
}

} // namespace mgc::cuda
