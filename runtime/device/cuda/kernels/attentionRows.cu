// Kernels of attention that compute each row, or each bias, by itself.
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

// The bias's gradient [count, g, r], a block for each element: the sums of all queries of its head.
extern "C" __global__ void __launch_bounds__(kAttentionThreads) attention_dbias(const AttentionArguments a) {
  __shared__ float partial[kAttentionThreads];
  const int64_t heads = a.g * a.r, bucket = blockIdx.x / heads, head = blockIdx.x % heads;
  const int64_t blocks = (a.s * a.r + kAttentionTile - 1) / kAttentionTile; // blocks per (b, g)
  const float *sums = reinterpret_cast<const float *>(a.bias.sums) + bucket * kAttentionTile;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < a.b * a.s; i += kAttentionThreads) {
    const int64_t row = i % a.s * a.r + head % a.r; // attention_dq begins with the last ones
    const int64_t block = (i / a.s * a.g + head / a.r) * blocks + blocks - 1 - row / kAttentionTile;
    sum += sums[block * a.bias.count * kAttentionTile + row % kAttentionTile];
  }
  partial[threadIdx.x] = sum;
  for (int distance = kAttentionThreads / 2; distance > 0; distance /= 2) {
    __syncthreads();
    if (threadIdx.x < distance)
      partial[threadIdx.x] += partial[threadIdx.x + distance];
  }
  if (threadIdx.x == 0)
    reinterpret_cast<float *>(a.bias.gradient)[blockIdx.x] = partial[0];
}
