// The memory of a stage as its steps see it: rings in groups that have no byte in common, and for each piece of a group who
// wrote it last, what it holds, and who read it since. In: accesses in the order of the list.
#pragma once

#include "plan/Plan.h"
#include "plan/prove/Bytes.h"
#include "plan/prove/Completed.h"

#include <map>

namespace mgc::plan {

// A step, as it runs; -1: none.
struct StepId {
  int64_t step = -1;
  StepStream stream = StepStream::compute;
};

// The value that bytes hold: a ring's value of a microbatch; ring -1: nothing.
struct Content {
  int64_t ring = -1, microbatch = 0;
  bool operator==(const Content &) const = default;
};

struct Piece {
  StepId writer;
  Content content;
  int64_t computeReader = -1, gradientsReader = -1; // the last; those before completed earlier
  std::vector<int64_t> messageReaders = {};
};

// Slots of a ring; of a shared area the largest.
struct Cycle {
  int64_t first = 0, slots = 1;
  auto operator<=>(const Cycle &) const = default;
};

// Rings whose memory overlaps. It turns if all have the same slots, so that the slots of a later microbatch are those of an
// earlier one, moved on; else slots must come back to where they were.
struct RingGroup {
  int64_t offset = 0, stride = 0, period = 1; // bytes; microbatches between uses of one turn
  std::vector<Cycle> cycles;
  bool turns = true;
  ByteMap<Piece> pieces{1, {}}; // from `offset` on
};

class RingMemory {
public:
  explicit RingMemory(const StagePlan &stage);
  bool isTracked(int64_t ring) const { return groupOf_[ring] >= 0; } // not an input's
  RingGroup &groupOf(int64_t ring) { return groups_[groupOf_[ring]]; }
  const std::vector<RingGroup> &groups() const { return groups_; }
  // The bytes, in the group, of `range` of the ring's slot for the microbatch, which may be below 0.
  ByteInterval at(int64_t ring, int64_t microbatch, ByteInterval range) const;
  // Microbatches after which all slots are what they were, as far as groups that turn go and others are the same.
  int64_t period() const { return period_; }
  int64_t mostSlots() const { return mostSlots_; }

private:
  const StagePlan &stage_;
  std::vector<int64_t> groupOf_; // by ring; -1: an input's
  std::vector<RingGroup> groups_;
  int64_t period_ = 1, mostSlots_ = 1;
};

} // namespace mgc::plan
