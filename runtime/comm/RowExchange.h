// Where the rows of plan::ExchangeRows lie at both ends, by the counts that all ranks of the group have: arithmetic alone.
#pragma once

#include "plan/instructions/ExchangeRowsInstruction.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <vector>

namespace mgc {

class RowExchange {
public:
  // Rows of one group that a rank, their owner, has: `count` of them, from row `own` on at their owner, and from row `there` on
  // at the rank that has the group, their host.
  struct Piece {
    int64_t count = 0, own = 0, there = 0;
  };

  // Reads counts, of as many ranks as `ranks`, which are named in errors; an error names the rank, or the expert, whose counts
  // cannot be, and leaves nothing to be moved. No memory is allocated but for the first of the largest exchange.
  Status read(const plan::ExchangeRows &what, const std::vector<int64_t> &ranks, const int32_t *counts);

  // The piece of the host's `group`, counted from 0.
  const Piece &piece(int64_t owner, int64_t host, int64_t group) const {
    return pieces_[static_cast<size_t>((owner * ranks_ + host) * groups_ + group)];
  }
  int64_t hash() const { return hash_; } // hash of the counts: equal on all ranks

private:
  Status moreRowsThanPlaces(const plan::ExchangeRows &what, const std::vector<int64_t> &ranks, int64_t host) const;

  int64_t ranks_ = 0, groups_ = 0, hash_ = 0;
  std::vector<Piece> pieces_;           // [owner, host, group]
  std::vector<int64_t> owned_, hosted_; // rows, while they are read
};

} // namespace mgc
