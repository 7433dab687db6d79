// What attention needs of each row by itself.
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
    for (int64_t j = part; j < a.d; j += 8)
      sum = fmaf(load(a, a.o, group * a.o.stride + inner * a.d + j),
                 load(a, a.outputGradient, group * a.outputGradient.stride + inner * a.d + j), sum);
  }
  partial[i][part] = sum;
  __syncthreads();
  if (part != 0 || row >= a.s * a.b * a.g * a.r)
    return;
  for (int j = 1; j < 8; ++j)
    sum += partial[i][j];
  reinterpret_cast<float *>(a.delta)[row] = sum;
}

// cuDNN's statistics [b, g, r, s] and lse [s, b, g, r] are the other way round. A thread an element of lse.
__device__ bool findStatistic(int64_t s, int64_t heads, int64_t rows, int64_t &lse, int64_t &statistic) {
  lse = int64_t(blockIdx.x) * kAttentionThreads + threadIdx.x;
  statistic = lse % heads * s + lse / heads;
  return lse < rows;
}

extern "C" __global__ void __launch_bounds__(kAttentionThreads)
    attention_statistics_from_lse(float *statistics, const float *lse, int64_t s, int64_t heads) {
  int64_t from, to;
  if (findStatistic(s, heads, s * heads, from, to))
    statistics[to] = lse[from];
}

extern "C" __global__ void __launch_bounds__(kAttentionThreads)
    attention_lse_from_statistics(float *lse, const float *statistics, int64_t s, int64_t heads) {
  int64_t from, to;
  if (findStatistic(s, heads, s * heads, to, from))
    lse[to] = statistics[from];
}
