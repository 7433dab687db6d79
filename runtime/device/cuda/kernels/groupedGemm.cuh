// Matrix products of groups of rows whose counts lie in the device's memory (plan::GroupedGemm): the loop over tiles of
// C that all kernels have. A grid of as many blocks as fit on the device walks all tiles: of group 0, of group 1, ..,
// each block every n-th. No host knows how many there are.
//
//     counts 3 0 5, tiles of 2 rows, C of 1 tile of columns    tiles 2 0 3    blocks 0 1 | | 0 1 0  of two
//
// A tile is  C[i, j] = sum over q of X[i, q] Y[q, j]:
//     rows    i a row of the group, q = k        X = A [i, q], Y = B[g] [q, j], or stored [j, q]
//     sums    i = m, q a row of the group        X = A [q, i], Y = B [q, j]
// The sum of an element is made by one thread, or one product of tensor cores after the other, in the order of q: equal
// bits for equal counts. Elements beyond the end of i, j or q are 0 in shared memory, whatever lies there.
#pragma once

#include "runtime/device/cuda/kernels/rowReport.cuh"

#include <cuda_bf16.h>

namespace mgc::cuda {

using Bf16 = __nv_bfloat16;

enum class GroupedForm { rows, rowsTransposed, sums }; // transposed: B[g] is stored [n, k]

constexpr bool isSums(GroupedForm form) { return form == GroupedForm::sums; }

// One side of the matrix product: elements [i, q] at `begin + i * outer + q * inner`, of which one stride is 1.
template <typename In> struct GroupedOperand {
  const In *begin;
  int64_t outer, inner;
  int64_t size; // range of i
};

// A tile of C, and what it is made of.
template <typename In, typename Out> struct GroupedTile {
  GroupedOperand<In> x, y; // y: i is j
  int64_t depth;           // range of q
  int64_t row, column;     // place in the group's C
  Out *c;                  // the group's
};

// --- The walk.

// Tiles of all groups in their order. Every warp has its own; all threads of a block are in the same tile.
template <typename In, typename Out, GroupedForm kForm, int kTile> class GroupedWalk {
public:
  __device__ explicit GroupedWalk(const GroupedGemmArguments &arguments)
      : a(arguments), columns((a.n + kTile - 1) / kTile), nextTile(blockIdx.x) {}

  // Whether counts cannot be: then it is said, and nothing may be written.
  __device__ bool isWrong() const {
    int64_t total = 0;
    bool isNegative = false;
    for (int64_t first = 0; first < a.groups; first += 32) {
      const int64_t count = countAt(first + lane());
      isNegative |= count < 0;
      total += sumOfWarp(count);
    }
    if (!__any_sync(kAll, isNegative) && total <= a.rows)
      return false;
    if (threadIdx.x == 0)
      nameWrongCount();
    return true;
  }

  // The block's next tile; false when there is none.
  __device__ bool next(GroupedTile<In, Out> &tile) {
    for (; first < a.groups; first += 32) {
      const int64_t count = countAt(first + lane());
      const int64_t tiles = first + lane() < a.groups ? rowTiles(count) * columns : 0;
      const int64_t tilesUpTo = sumUpToLane(tiles), rowsUpTo = sumUpToLane(count);
      const unsigned reached = __ballot_sync(kAll, tilesBefore + tilesUpTo > nextTile);
      if (reached != 0) {
        const int at = __ffs(reached) - 1;
        const int64_t row = __shfl_sync(kAll, rowsBefore + rowsUpTo - count, at);
        const int64_t number = nextTile - __shfl_sync(kAll, tilesBefore + tilesUpTo - tiles, at);
        const int64_t ofGroup = __shfl_sync(kAll, count, at);
        place(tile, first + at, row, ofGroup, number);
        nextTile += gridDim.x;
        return true;
      }
      tilesBefore += __shfl_sync(kAll, tilesUpTo, 31), rowsBefore += __shfl_sync(kAll, rowsUpTo, 31);
    }
    return false;
  }

private:
  const GroupedGemmArguments &a;
  const int64_t columns; // tiles of them
  int64_t nextTile;
  // State of the search through 32 groups: the first, and tiles and rows of those before it.
  int64_t first = 0, tilesBefore = 0, rowsBefore = 0;

  __device__ int64_t countAt(int64_t group) const {
    return group < a.groups ? reinterpret_cast<const int *>(a.counts)[group] : 0;
  }

  // A group without rows adds nothing, but its sums are 0.
  __device__ int64_t rowTiles(int64_t count) const {
    if (isSums(kForm))
      return count == 0 && a.accumulate ? 0 : (a.m + kTile - 1) / kTile;
    return (count + kTile - 1) / kTile;
  }

  __device__ void nameWrongCount() const {
    int64_t rows = 0;
    for (int64_t group = 0; group < a.groups; ++group) {
      const int64_t count = countAt(group);
      rows += count;
      if (count < 0 || rows > a.rows)
        stop(a.report, KernelReport::wrongCount, group, a.groups, count, rows, a.rows);
    }
  }

  // Tiles of one column follow each other, so that they find its part of B in the cache.
  __device__ void place(GroupedTile<In, Out> &tile, int64_t group, int64_t row, int64_t count, int64_t number) const {
    const int64_t tall = rowTiles(count);
    tile.row = number % tall * kTile, tile.column = number / tall * kTile;
    const In *A = reinterpret_cast<const In *>(a.a), *B = reinterpret_cast<const In *>(a.b);
    if (isSums(kForm)) {
      tile.x = {A + row * a.m, 1, a.m, a.m};
      tile.y = {B + row * a.n, 1, a.n, a.n};
      tile.depth = count;
      tile.c = reinterpret_cast<Out *>(a.c) + group * a.m * a.n;
    } else {
      tile.x = {A + row * a.k, a.k, 1, count};
      const bool isStoredAcross = kForm == GroupedForm::rowsTransposed;
      tile.y = {B + group * a.k * a.n, isStoredAcross ? a.k : 1, isStoredAcross ? 1 : a.n, a.n};
      tile.depth = a.k;
      tile.c = reinterpret_cast<Out *>(a.c) + row * a.n;
    }
  }
};

// --- Results.

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(Bf16 value) { return __bfloat162float(value); }

template <typename Out> __device__ Out added(const GroupedGemmArguments &a, const Out *c, float sum) {
  return Out(a.accumulate ? widen(*c) + sum : sum);
}

// Stores C's elements in row `row` of the group and columns `column`, `column` + 1, as far as they exist.
template <typename In, typename Out>
__device__ void storePair(const GroupedGemmArguments &a, const GroupedTile<In, Out> &tile, int64_t row, int64_t column, float left,
                          float right) {
  if (row >= tile.x.size || column >= tile.y.size)
    return;
  struct alignas(2 * sizeof(Out)) Pair {
    Out left, right;
  };
  Out *to = tile.c + row * a.n + column;
  if (a.hasPairs) {
    const Pair pair = {added(a, to, left), added(a, to + 1, right)};
    *reinterpret_cast<Pair *>(to) = pair;
    return;
  }
  *to = added(a, to, left);
  if (column + 1 < tile.y.size)
    to[1] = added(a, to + 1, right);
}

// The whole kernel: multiply(tile) makes and stores one.
template <typename In, typename Out, GroupedForm kForm, int kTile, typename Multiply>
__device__ void groupedGemm(const GroupedGemmArguments &a, const Multiply &multiply) {
  GroupedWalk<In, Out, kForm, kTile> walk(a);
  if (walk.isWrong())
    return;
  GroupedTile<In, Out> tile;
  while (walk.next(tile))
    multiply(tile);
}

} // namespace mgc::cuda
