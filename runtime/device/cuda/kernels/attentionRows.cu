// Kernels of attention that compute each row by itself.
#include "runtime/device/cuda/kernels/attentionMemory.cuh"

using namespace mgc::cuda;

// delta [s,b,g,r] <- sums of output times its gradient, eight threads a row. Blocks of kAttentionDeltaRows rows.
extern "C" __global__ void __launch_bounds__(kAttentionThreads) attention_delta(const AttentionArguments a) {
  __shared__ float partial[kAttentionDeltaRows][9];
  const int i = threadIdx.x / 8, part = threadIdx.x % 8;
  const int64_t row = int64_t(blockIdx.x) * kAttentionDeltaRows + i;
  float sum = 0;
  if (row < a.s * a.b * a.g * a.r) {
    const int64_t group = row / a.r, inner = row % a.r;
    for (int64_t j = part; j < a.w; j += 8)
      sum = fmaf(load(a, a.o, group * a.o.stride + inner * a.w + j),
                 load(a, a.outputGradient, group * a.outputGradient.stride + inner * a.w + j), sum);
  }
  partial[i][part] = sum;
  __syncthreads();
  if (part != 0 || row >= a.s * a.b * a.g * a.r)
    return;
  for (int j = 1; j < 8; ++j)
    sum += partial[i][j];
  reinterpret_cast<float *>(a.delta)[row] = sum;
}
