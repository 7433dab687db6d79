// A periodic solution as the player reads it: plan/play/SolutionLists.h, with repeats.
#pragma once

#include "compiler/schedule/Periodic.h"
#include "plan/play/SolutionLists.h"

namespace mgc::schedule {

PlayLists listsOf(const PeriodicSolution &solution, const Costs &costs = {});

} // namespace mgc::schedule
