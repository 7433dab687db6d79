// Grouped matrix products of f32: a block of 16 x 16 threads has a tile of 64 x 64, each thread 4 x 4 sums.
#include "runtime/device/cuda/kernels/groupedGemm.cuh"

using namespace mgc::cuda;

namespace {

constexpr int kTile = kGroupedTileF32, kThreads = kGroupedThreads;
constexpr int kDepth = 16;         // values of q per step
// Row stride of [kDepth, kTile]: stores and 16-byte loads meet few bank conflicts.
constexpr int kStride = kTile + 4;
static_assert(kTile * kTile == 16 * kThreads, "how threads share a tile");

using Slice = float[kDepth * kStride]; // [q, i]

// Threads that follow each other read elements that do.
__device__ void load(Slice &to, const GroupedOperand<float> &from, int64_t begin, int64_t q, int64_t depth) {
#pragma unroll
  for (int part = 0; part < kTile * kDepth; part += kThreads) {
    const int at = part + threadIdx.x;
    const bool isAcross = from.outer == 1;
    const int i = isAcross ? at % kTile : at / kDepth, p = isAcross ? at / kTile : at % kDepth;
    const bool exists = begin + i < from.size && q + p < depth;
    to[p * kStride + i] = exists ? from.begin[(begin + i) * from.outer + (q + p) * from.inner] : 0.0f;
  }
}

struct SlicePair {
  Slice x, y;
};

__device__ void multiply(const GroupedGemmArguments &a, SlicePair &shared, const GroupedTile<float, float> &tile) {
  const int row = 4 * (threadIdx.x / 16), column = 4 * (threadIdx.x % 16);
  float sums[4][4] = {};
  for (int64_t q = 0; q < tile.depth; q += kDepth) {
    __syncthreads(); // the slice before is done with
    load(shared.x, tile.x, tile.row, q, tile.depth);
    load(shared.y, tile.y, tile.column, q, tile.depth);
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
      const float4 left = *reinterpret_cast<const float4 *>(shared.x + p * kStride + row);
      const float4 right = *reinterpret_cast<const float4 *>(shared.y + p * kStride + column);
      const float lefts[] = {left.x, left.y, left.z, left.w}, rights[] = {right.x, right.y, right.z, right.w};
#pragma unroll
      for (int i = 0; i < 16; ++i)
        sums[i / 4][i % 4] = fmaf(lefts[i / 4], rights[i % 4], sums[i / 4][i % 4]);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int r = i / 2, c = i % 2 * 2;
    storePair(a, tile, tile.row + row + r, tile.column + column + c, sums[r][c], sums[r][c + 1]);
  }
}

template <GroupedForm kForm> __device__ void run(const GroupedGemmArguments &a) {
  __shared__ __align__(16) SlicePair shared;
  groupedGemm<float, float, kForm, kTile>(a, [&](const GroupedTile<float, float> &tile) { multiply(a, shared, tile); });
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads) grouped_rows_f32_f32(const GroupedGemmArguments a) {
  run<GroupedForm::rows>(a);
}
extern "C" __global__ void __launch_bounds__(kThreads) grouped_across_f32_f32(const GroupedGemmArguments a) {
  run<GroupedForm::rowsTransposed>(a);
}
extern "C" __global__ void __launch_bounds__(kThreads) grouped_sums_f32_f32(const GroupedGemmArguments a) {
  run<GroupedForm::sums>(a);
}
