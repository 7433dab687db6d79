// Near layouts of one that takes too much memory.
#pragma once

#include "planner/Trials.h"

namespace mgc::planner {

// The memory that a rank may take, of the device and of the host.
struct MemoryOfRank {
  int64_t device = 0, host = 0;
};

// All layouts that differ in fewest choices from the one that was asked for, and fit and are proved, those that take least time
// first: so many as `wanted` or more, unless those of kMostChanges choices are fewer. A choice is a higher level of ZeRO, the
// optimizer's state on the host, gradients of bf16, a policy of recomputation, half, a quarter, .. of a microbatch, or 2, 4 or 8
// times as many ranks of tp, cp or pp and as many fewer data ranks. Without data ranks there are more ranks, unless their number
// is given. `present` is the plan that takes too much, where there is one: a layout of whose
// parameters and states alone a rank has too much is not compiled.
inline constexpr int kMostChanges = 3, kMostTrials = 100;
struct Near {
  std::vector<Trial> fitting;
  int64_t left = 0; // layouts that were not tried, since there were more than kMostTrials
};
Near tryNeighbours(const Asked &asked, const frontend::Layout &layout, const plan::Plan *present,
                   const MemoryOfRank &memory, size_t wanted, const MakeModule &make);

} // namespace mgc::planner
