// Decides, from sizes alone, which thread of a GPU does what in a laid-out row graph. The order of every sum follows.
//   rows     `lanes` threads next to each other have a row: part of a warp, or a whole block. Each has every lanes-th
//            vector of the row, all at once and from pass to pass (`keeps`), or `unroll` at a time.
//   blocks   a thread has `unroll` vectors of the whole range, a block's threads neighbouring ones.
//   columns  `lanes` threads have neighbouring vectors of columns, the others of the block the same of other rows: a
//            block's part of a row is a few sectors of memory, so that there are blocks enough for all of the GPU.
//            Effects that add to tables have parts of their own.
#pragma once

#include "codegen/rows/loops/LoopLayout.h"
#include <optional>

namespace mgc::rowgen {

inline constexpr int64_t kWarp = 32;

// Effects of a column kernel that the same blocks do.
struct GpuPart {
  std::vector<size_t> effects;
  std::optional<Node> index; // number of the table's row that the effects add to
  int64_t firstBlock = 0, blocks = 0;
  // With an index: so many warps share the rows of a slice of columns. A warp does those whose index is its number
  // modulo `classes`, in order: no two add to one place. 1 also where sums over rows or other indices are among the
  // effects.
  int64_t classes = 1;
};

struct GpuShape {
  int64_t blocks = 1, threads = 256;
  int64_t width =
      1; // elements of a vector: 16 bytes of the widest operand that changes with the row, less where it would
         // not divide rows
  int64_t vectors = 1; // in the columns of a row
  int64_t unroll = 1;  // vectors that are loaded before one is used, to have enough of the memory's latency in flight
  int64_t lanes = 1;   // a power of 2
  bool keeps = false;  // rows
  std::vector<GpuPart> parts; // columns

  static GpuShape of(const LoopLayout &layout);
  int64_t rowsAtOnce() const { return threads / lanes; } // rows, columns: of a block
};

} // namespace mgc::rowgen
