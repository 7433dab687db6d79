// Orders in which the positions of a sequence lie along s and t. Ranks of context parallelism have equal blocks of that
// order, one after the other.
//
//   zigzag 1: 0 1 2 3 4 5 6 7      zigzag 2, two ranks: 0 1 6 7 | 2 3 4 5
//
// A sequence of zigzag z is cut in 2 z chunks, and chunk i stands next to its mirror image 2 z - 1 - i. Where queries
// see the keys before them, each of z ranks has as many pairs to compute (Megatron-LM: get_batch_on_this_cp_rank).
#pragma once

#include <cstdint>
#include <vector>

namespace mgc::plan {

// Whether a sequence of this size can have the order of zigzag >= 1.
bool isOrder(int64_t size, int64_t zigzag);

// The position at place `index` of the order. In: 0 <= index < size, isOrder.
int64_t positionAt(int64_t index, int64_t size, int64_t zigzag);

// A run of positions one after the other that lie one after the other too: from place `index` on, and how many.
struct OrderRun {
  int64_t position = 0, count = 0;
};
OrderRun runAt(int64_t index, int64_t size, int64_t zigzag);

// The positions of one of `parts` equal parts of the order, ascending: neighbours are one run, wherever they lie.
std::vector<OrderRun> positionsOfPart(int64_t part, int64_t parts, int64_t size, int64_t zigzag);

} // namespace mgc::plan
