// combine: element by element, the sum or maximum of several sources in their order, for ranks that share a device. Sums are f32
// and rounded once; the order follows from the arguments alone.
#include "runtime/device/cuda/Combine.h"

#include <cuda_bf16.h>

using mgc::cuda::CombineSources;

namespace {

template <typename T> struct Wide { using type = T; };
template <> struct Wide<__nv_bfloat16> { using type = float; };

__device__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float widen(float value) { return value; }
__device__ int widen(int value) { return value; }

template <typename T> struct Sum {
  __device__ static T of(T a, T b) { return a + b; }
};
template <> struct Sum<int> { // wraps, as on the CPU
  __device__ static int of(int a, int b) { return int(unsigned(a) + unsigned(b)); }
};
template <typename T> struct Max { // NaN if either is NaN, as on the CPU
  __device__ static T of(T a, T b) { return a < b || b != b ? b : a; }
};

// One thread takes `Lanes` neighbours at once: 16 bytes where all addresses allow it, else one element.
template <typename T, int Lanes> struct alignas(sizeof(T) * Lanes) Pack {
  T lanes[Lanes];
};

template <template <typename> class Reduce, typename T, int Lanes>
__device__ void combine(T *to, const CombineSources &sources, long long count, long long packs) {
  using W = typename Wide<T>::type;
  const long long threads = (long long)gridDim.x * blockDim.x;
  for (long long pack = (long long)blockIdx.x * blockDim.x + threadIdx.x; pack < packs; pack += threads) {
    W sum[Lanes];
    for (long long source = 0; source < count; ++source) {
      const auto read = reinterpret_cast<const Pack<T, Lanes> *>(sources.address[source])[pack];
      for (int lane = 0; lane < Lanes; ++lane)
        sum[lane] = source == 0 ? widen(read.lanes[lane]) : Reduce<W>::of(sum[lane], widen(read.lanes[lane]));
    }
    Pack<T, Lanes> result;
    for (int lane = 0; lane < Lanes; ++lane)
      result.lanes[lane] = T(sum[lane]);
    reinterpret_cast<Pack<T, Lanes> *>(to)[pack] = result;
  }
}

} // namespace

#define MGC_COMBINE(name, Reduce, T, Lanes)                                                                   \
  extern "C" __global__ void name(T *to, const __grid_constant__ CombineSources sources, long long count, long long packs) { \
    combine<Reduce, T, Lanes>(to, sources, count, packs);                                                     \
  }
MGC_COMBINE(sum_f32, Sum, float, 1)
MGC_COMBINE(sum_f32_packed, Sum, float, 4)
MGC_COMBINE(sum_bf16, Sum, __nv_bfloat16, 1)
MGC_COMBINE(sum_bf16_packed, Sum, __nv_bfloat16, 8)
MGC_COMBINE(sum_i32, Sum, int, 1)
MGC_COMBINE(sum_i32_packed, Sum, int, 4)
MGC_COMBINE(max_f32, Max, float, 1)
MGC_COMBINE(max_f32_packed, Max, float, 4)
MGC_COMBINE(max_bf16, Max, __nv_bfloat16, 1)
MGC_COMBINE(max_bf16_packed, Max, __nv_bfloat16, 8)
MGC_COMBINE(max_i32, Max, int, 1)
MGC_COMBINE(max_i32_packed, Max, int, 4)
