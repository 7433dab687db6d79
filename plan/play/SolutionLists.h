// A solution as the player reads it. In: the solution and the seconds of its tasks.
#pragma once

#include "plan/play/PlayLists.h"

#include <array>
#include <map>

namespace mgc::schedule {

struct Costs {
  std::vector<ChunkCost> chunks; // by global chunk; empty: ChunkCost() everywhere
  double begin = 0, reduce = 0, update = 0;
  double messageLatency = 0, secondsPerByte = 0;
  // Seconds of two tasks of these global chunks that run as a pair, first and second; the sum where there is none.
  using Pair = std::array<std::pair<TaskKind, int64_t>, 2>;
  std::map<Pair, double> pairs = {};
  // Seconds of tasks of a global chunk that are first (ScheduledTask); as long as others where there are none.
  std::map<std::pair<TaskKind, int64_t>, double> firsts = {};
};
// The field of a task of the step.
double Costs::*stepCostOf(TaskKind kind);

// Without repeats. Parts of a task take equally long. The solution must be a sound one, as those of generate() are.
PlayLists listsOf(const Solution &solution, const Costs &costs = {});

} // namespace mgc::schedule
