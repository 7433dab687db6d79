// Nvcc.ptx is what nvcc makes of this: nvcc -ptx -arch=sm_90 -o Nvcc.ptx Nvcc.cu
#include <cuda_bf16.h>

__constant__ float shift[4] = {0.0f, 0.25f, 0.5f, 0.75f};
__device__ unsigned counter;

// y = x / sqrt(mean of squares + shift), a block for each row.
extern "C" __global__ void normalize(const __nv_bfloat16 *x, __nv_bfloat16 *y, long columns) {
  __shared__ float parts[32];
  extern __shared__ float row[];
  const long begin = blockIdx.x * columns;
  float sum = 0;
  for (long i = threadIdx.x; i < columns; i += blockDim.x) {
    row[i] = __bfloat162float(x[begin + i]);
    sum += row[i] * row[i];
  }
  for (int step = 16; step; step /= 2)
    sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
    for (int step = 16; step; step /= 2)
      sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x == 0)
      parts[0] = rsqrtf(sum / columns + shift[blockIdx.x % 4]);
  }
  __syncthreads();
  for (long i = threadIdx.x; i < columns; i += blockDim.x)
    y[begin + i] = __float2bfloat16(row[i] * parts[0]);
  if (threadIdx.x == 0)
    atomicAdd(&counter, 1);
}

// The library's functions: branches, tables, local memory for large arguments.
extern "C" __global__ void functions(const float4 *x, float4 *y, float power, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  const float4 v = x[i];
  y[i] = make_float4(tanhf(v.x) + expf(v.x), logf(fabsf(v.y) + 1) + erff(v.y), sinf(v.z) + cosf(v.z), powf(fabsf(v.w), power));
}

__device__ __noinline__ float iterate(float a, int times) {
  for (int i = 0; i < times; ++i)
    a = a * a + 0.25f;
  return a;
}

struct Numbers {
  int factor;
  float terms[5];
  long offset;
};

// A call, a parameter that is a structure, and an array with an index that is not known.
extern "C" __global__ void calls(Numbers numbers, const int *times, float *y) {
  const int i = threadIdx.x;
  float local[16];
  for (int k = 0; k < 16; ++k)
    local[k] = k * 0.01f;
  for (int k = 0; k < times[i]; ++k)
    local[k * 7 % 16] += 1;
  y[i] = iterate(numbers.terms[i % 5], times[i]) * numbers.factor + numbers.offset + local[i % 16];
}

extern "C" __global__ void integers(const int *a, unsigned *b, long long *c) {
  const int i = threadIdx.x;
  b[i] = __popc(a[i]) + __clz(a[i]) + __brev(a[i]) + __ffs(a[i]) + __byte_perm(a[i], i, 0x1234) + a[i] / 7 + a[i] % 13 +
         __umulhi(a[i], i);
  c[i] = c[i] / (i + 1) + c[i] % 1000003 + __popcll(c[i]);
  switch (i % 6) {
  case 0: c[i]++; break;
  case 1: c[i] += b[i]; break;
  case 2: c[i] *= 3; break;
  case 3: c[i] ^= 5; break;
  case 4: c[i] = 7; break;
  case 5: c[i] |= 8; break;
  }
}
