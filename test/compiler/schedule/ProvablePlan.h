// A whole plan with the steps of a schedule, for proofs: each task is a program of one row kernel that reads and writes the
// buffers that its task does, whole. A backward in parts adds to a cell of 64 bytes for each part, which the part's task
// gradients completes and reduce reads.
#pragma once

#include "compiler/schedule/Periodic.h"
#include "plan/Plan.h"

namespace mgc::schedule {

plan::Plan provablePlan(const PeriodicSolution &solution);

// The same of a solution, with the repeats that its lists have.
plan::Plan provablePlan(const Problem &problem, const Solution &solution);

// With every step that runs in the list, and no repeats.
plan::StagePlan unrolled(plan::StagePlan stage);

// provePlan of the plan with the solution's steps.
Status prove(const Problem &problem, const Solution &solution);

} // namespace mgc::schedule
