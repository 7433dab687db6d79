// Grouped matrix products of bf16 by tensor cores, sums in f32: a block of 2 x 4 warps has a tile of 128 x 128, each
// warp 64 x 32 of it in 4 x 4 products of 16 x 8 (mma.m16n8k16). Two slices of 32 along q are in shared memory: one is
// multiplied while the next is loaded through registers.
//
// Shared memory has words of two elements that follow each other along q, as the instruction takes them: [i, q / 2], with a stride
// of 20 words: the 8 rows and 4 words that the lanes of a warp read at once are in 32 different banks.
#include "runtime/device/cuda/kernels/groupedGemm.cuh"

using namespace mgc::cuda;

namespace {

constexpr int kTile = kGroupedTileBf16, kThreads = kGroupedThreads;
constexpr int kDepth = 32;                // values of q per step
constexpr int kWords = kDepth / 2;        // words of a row
constexpr int kStride = kWords + 4;       // words from one row to the next
constexpr int kWarpRows = 64, kWarpColumns = 32;
constexpr int kTall = kWarpRows / 16, kWide = kWarpColumns / 8; // products of a warp
constexpr int kVector = 8;                                      // elements of 16 bytes
static_assert(kTile * kDepth == 2 * kVector * kThreads, "two vectors of each operand for each thread");

using Slice = uint32_t[kTile * kStride];

struct SliceTurns {
  Slice x[2], y[2];
};

// The two vectors of a thread that are being copied from memory to shared memory.
struct Vectors {
  uint4 parts[2];
};

// Elements [0, count) from `from` on, 0 behind them.
__device__ uint4 loadVector(const GroupedGemmArguments &a, const Bf16 *from, int64_t count) {
  uint4 vector = {};
  if (a.isAligned && count >= kVector)
    return *reinterpret_cast<const uint4 *>(from);
  auto *words = reinterpret_cast<uint32_t *>(&vector);
  const auto *elements = reinterpret_cast<const uint16_t *>(from);
#pragma unroll
  for (int i = 0; i < kVector; ++i)
    if (i < count)
      words[i / 2] |= uint32_t(elements[i]) << (i % 2 * 16);
  return vector;
}

// Where a thread's vectors begin. Along q: of two rows, 64 apart. Across: of the same columns and two neighbours along q;
// lanes that follow each other have different q, so that their words go to different banks.
struct VectorPlace {
  int i, q;
};
__device__ VectorPlace placeOf(bool isAcross, int vector) {
  if (isAcross)
    return {int(threadIdx.x) / kWords * kVector, int(threadIdx.x) % kWords * 2 + vector};
  return {int(threadIdx.x) / (kDepth / kVector) + vector * (kTile / 2), int(threadIdx.x) % (kDepth / kVector) * kVector};
}

__device__ Vectors load(const GroupedGemmArguments &a, const GroupedOperand<Bf16> &from, int64_t begin, int64_t q, int64_t depth) {
  const bool isAcross = from.outer == 1;
  Vectors to;
#pragma unroll
  for (int vector = 0; vector < 2; ++vector) {
    const VectorPlace at = placeOf(isAcross, vector);
    const int64_t i = begin + at.i, p = q + at.q;
    const bool exists = i < from.size && p < depth;
    const int64_t count = isAcross ? from.size - i : depth - p;
    to.parts[vector] = exists ? loadVector(a, from.begin + i * from.outer + p * from.inner, count) : uint4{};
  }
  return to;
}

__device__ void store(Slice &to, const Vectors &from, bool isAcross) {
  if (!isAcross) {
#pragma unroll
    for (int vector = 0; vector < 2; ++vector) {
      const VectorPlace at = placeOf(false, vector);
      *reinterpret_cast<uint4 *>(to + at.i * kStride + at.q / 2) = from.parts[vector];
    }
    return;
  }
  const VectorPlace at = placeOf(true, 0);
  const uint32_t first[] = {from.parts[0].x, from.parts[0].y, from.parts[0].z, from.parts[0].w};
  const uint32_t second[] = {from.parts[1].x, from.parts[1].y, from.parts[1].z, from.parts[1].w};
#pragma unroll
  for (int i = 0; i < kVector; ++i) // halves of two words, those of the lower q below
    to[(at.i + i) * kStride + at.q / 2] = __byte_perm(first[i / 2], second[i / 2], i % 2 ? 0x7632 : 0x5410);
}

// c += a b of 16 x 16 and 16 x 8 elements; lane l has rows l / 4 and l / 4 + 8.
__device__ void multiplyAdd(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

using Sums = float[kTall][kWide][4];

// `rows`: how many the warp's part of the tile has; what is behind them is not made.
__device__ void multiplySlice(const Slice &x, const Slice &y, int64_t rows, Sums &sums) {
  const int pair = lane() % 4, line = lane() / 4;
  const uint32_t *left = x + (warp() / 4 * kWarpRows + line) * kStride + pair;
  const uint32_t *right = y + (warp() % 4 * kWarpColumns + line) * kStride + pair;
#pragma unroll
  for (int word = 0; word < kWords; word += 8) {
    uint32_t b[kWide][2];
#pragma unroll
    for (int j = 0; j < kWide; ++j)
      b[j][0] = right[8 * j * kStride + word], b[j][1] = right[8 * j * kStride + word + 4];
#pragma unroll
    for (int i = 0; i < kTall; ++i) {
      if (16 * i >= rows)
        break;
      const uint32_t *from = left + 16 * i * kStride + word;
      const uint32_t a[] = {from[0], from[8 * kStride], from[4], from[8 * kStride + 4]};
#pragma unroll
      for (int j = 0; j < kWide; ++j)
        multiplyAdd(sums[i][j], a, b[j]);
    }
  }
}

template <typename Out>
__device__ void multiply(const GroupedGemmArguments &a, SliceTurns &shared, const GroupedTile<Bf16, Out> &tile) {
  const bool xAcross = tile.x.outer == 1, yAcross = tile.y.outer == 1;
  const int64_t row = tile.row + warp() / 4 * kWarpRows, column = tile.column + warp() % 4 * kWarpColumns;
  Sums sums = {};
  Vectors x = load(a, tile.x, tile.row, 0, tile.depth), y = load(a, tile.y, tile.column, 0, tile.depth);
  __syncthreads(); // the tile before is done with
  for (int64_t q = 0; q < tile.depth; q += kDepth) {
    const int turn = q / kDepth % 2;
    store(shared.x[turn], x, xAcross), store(shared.y[turn], y, yAcross);
    __syncthreads();
    if (q + kDepth < tile.depth)
      x = load(a, tile.x, tile.row, q + kDepth, tile.depth), y = load(a, tile.y, tile.column, q + kDepth, tile.depth);
    multiplySlice(shared.x[turn], shared.y[turn], tile.x.size - row, sums);
  }
#pragma unroll
  for (int i = 0; i < kTall; ++i)
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      const int64_t r = row + 16 * i + lane() / 4, c = column + 8 * j + lane() % 4 * 2;
      storePair(a, tile, r, c, sums[i][j][0], sums[i][j][1]);
      storePair(a, tile, r + 8, c, sums[i][j][2], sums[i][j][3]);
    }
}

template <typename Out, GroupedForm kForm> __device__ void run(const GroupedGemmArguments &a) {
  __shared__ __align__(16) SliceTurns shared;
  groupedGemm<Bf16, Out, kForm, kTile>(a, [&](const GroupedTile<Bf16, Out> &tile) { multiply(a, shared, tile); });
}

} // namespace

#define MGC_GROUPED(name, Out, form)                                                                                   \
  extern "C" __global__ void __launch_bounds__(kThreads) name(const GroupedGemmArguments a) { run<Out, form>(a); }
MGC_GROUPED(grouped_rows_bf16_f32, float, GroupedForm::rows)
MGC_GROUPED(grouped_rows_bf16_bf16, Bf16, GroupedForm::rows)
MGC_GROUPED(grouped_across_bf16_f32, float, GroupedForm::rowsTransposed)
MGC_GROUPED(grouped_across_bf16_bf16, Bf16, GroupedForm::rowsTransposed)
MGC_GROUPED(grouped_sums_bf16_f32, float, GroupedForm::sums)
MGC_GROUPED(grouped_sums_bf16_bf16, Bf16, GroupedForm::sums)
