// RankMemory: the allocations of all ranks, as the process sees them that writes a checkpoint. Where ranks are
// processes, that is rank 0's; the others send it what it asks for.
#pragma once

#include "runtime/comm/Communicator.h"

#include <span>

namespace mgc {

// One allocation (StagePlan::bytes of the rank's stage) per rank of the mesh; null: not in this process.
using Arenas = std::span<std::byte *const>;

class RankMemory {
public:
  // `arenas` by rank. Without a communicator all ranks are in this process; with one, it is that of its only rank.
  RankMemory(Arenas arenas, Communicator *communicator);

  bool isWriter() const { return !communicator_ || communicator_->rank() == 0; }
  bool isHere(int64_t rank) const { return arenas_[rank] != nullptr; }
  bool areAllHere() const { return !communicator_; }
  const std::byte *arena(int64_t rank) const { return arenas_[rank]; }

  // `bytes` of rank `rank` from `data` on, which counts there only. All processes call it, in one order and with one
  // size. The writer gets them, where they are or in `scratch`; the others null.
  Result<const std::byte *> fetch(int64_t rank, const std::byte *data, int64_t bytes, std::vector<std::byte> &scratch);

private:
  const Arenas arenas_;
  Communicator *const communicator_;
  int64_t fetched_ = 0;
};

} // namespace mgc
