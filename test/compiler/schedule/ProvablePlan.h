// A whole plan with the steps of a schedule, for proofs: each task is a program of one row kernel that reads and writes the buffers
// that its task does, whole.
#pragma once

#include "compiler/schedule/Periodic.h"
#include "plan/Plan.h"

namespace mgc::schedule {

plan::Plan provablePlan(const PeriodicSolution &solution);

} // namespace mgc::schedule
