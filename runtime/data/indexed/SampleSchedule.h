// Chooses the samples of a step like Megatron-LM's samplers (--dataloader-type).
//   in:  how many samples there are, the number of the global batch's first sample since training began
//   out: the numbers of its samples, microbatch by microbatch, in each of them rank by rank
//
//   samples 0..15, micro batch 2, 2 data-parallel ranks, global batch 8
//     single   step 0: | rank 0: 0 1  rank 1: 2 3 | rank 0: 4 5  rank 1: 6 7 |    the same in every layout
//     cyclic   the same places of an order that is drawn anew for every epoch; see `isSharded`
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace mgc {

enum class SampleOrderKind { single, cyclic };

struct BatchCut {
  int64_t microBatch = 1, ranks = 1; // data-parallel ones
  int64_t atOnce() const { return microBatch * ranks; }
};

// The orders of cyclic: epoch e is drawn from the seed e alone.
class CyclicOrder {
public:
  // isSharded: each rank keeps to a part of the samples of its own, else to each ranks-th of one order.
  CyclicOrder(int64_t samples, BatchCut cut, bool isSharded)
      : samples_(samples), cut_(cut), isSharded_(isSharded), active_(samples - samples % cut.atOnce()) {}

  int64_t active() const { return active_; } // samples of an epoch: the rest is left out
  // The samples numbered [consumed, consumed + out.size()) since training began; both multiples of cut.atOnce().
  void fill(int64_t consumed, std::span<int64_t> out);

private:
  void draw(int64_t epoch);
  int64_t samples_;
  BatchCut cut_;
  bool isSharded_;
  int64_t active_, epoch_ = -1;
  std::vector<int64_t> order_;
};

} // namespace mgc
