// The state of a stage between two iterations of a repeat, as numbers: two states with equal numbers have the same future, but for
// the microbatches between them. In: pieces of memory, streams and numbers, in an order that the caller keeps.
#pragma once

#include "plan/prove/Completed.h"
#include "plan/prove/RingMemory.h"

#include <utility>
#include <vector>

namespace mgc::plan {

// Steps that every step from now on knows to be complete are alike, and so are messages that no memory and no wait refers to
// any more.
class StateWriter {
public:
  // Microbatches count from `base`, steps from `now`.
  StateWriter(int64_t base, int64_t now) : base_(base), now_(now) {}

  // Takes the knowledge of one step from now on; that of all such steps must be taken before pieces are added.
  void know(const Completed &known);
  void add(int64_t number) { numbers_.push_back(number); }
  void add(const Completed &known);
  void addStep(int64_t step) { add(relative(step)); }
  // The pieces in the range, relative to its begin; neighbours that are alike are one.
  void addPieces(const ByteMap<Piece> &pieces, ByteInterval range);
  // The slots of all rings, each from that of microbatch `base` on.
  void addRings(const RingMemory &memory);
  std::vector<int64_t> take() { return std::move(numbers_); }

private:
  std::vector<int64_t> numbersOf(const Piece &piece) const;
  int64_t relative(int64_t step) const;
  int64_t stepOf(StepId id) const;

  const int64_t base_, now_;
  int64_t leastCompute_ = INT64_MAX, leastGradients_ = INT64_MAX;
  std::vector<int64_t> numbers_;
};

} // namespace mgc::plan
