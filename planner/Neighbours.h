// Near layouts of one that takes too much memory.
#pragma once

#include "planner/Trials.h"

namespace mgc::planner {

// The memory that a rank may take, of the device and of the host.
struct MemoryOfRank {
  int64_t device = 0, host = 0;
};

inline constexpr int kMostChanges = 3, kMostTrials = 30;

struct Near {
  std::vector<Trial> fitting;  // by the time of a step
  int64_t tried = 0, left = 0; // layouts that were compiled, and others that might fit
};

// Layouts that differ in one choice from the one that was asked for; where fewer than `wanted` fit, those of two too, and of
// three. Each is compiled up to its plan and proved. A choice is a higher level of ZeRO, the optimizer's state on the host,
// gradients of bf16, full recomputation, room for twice the mean of experts' rows, half, a quarter, .. of a microbatch, 2, 4 or 8 times as many ranks of ep, or of tp, pp or cp
// and as many fewer data ranks. Where dp is 1 there are more ranks, unless their number is given.
// `present` is the plan that takes too much, where there is one: a layout whose parameters and states alone are too much by what
// the plan has of them is left out, and those that need least, about, come first. Of each number of choices at most
// kMostTrials are compiled: all of one choice.
Near tryNeighbours(const Asked &asked, const frontend::Layout &layout, const plan::Plan *present,
                   const MemoryOfRank &memory, size_t wanted, const MakeModule &make);

} // namespace mgc::planner
