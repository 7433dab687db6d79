// Lists played step by step in floating point: what the player must agree with.
#pragma once

#include "plan/play/Player.h"

namespace mgc::schedule {

struct Simulated {
  double makespan = 0;
  std::vector<double> busy;     // by stage
  std::vector<StepTimes> times; // by stage
};

// The lists have no repeats, and one group of stages that meet.
Simulated simulate(const PlayLists &lists);

} // namespace mgc::schedule
