// Proof on a finished (perhaps edited) plan that its schedule can run. In: a plan. Out: success or all problems.
#pragma once

#include "plan/Expand.h"
#include "runtime/base/Problems.h"
#include "runtime/base/Status.h"

namespace mgc::schedule {

// In: a plan that passed verifyPlan. Each chunk runs once for each microbatch; sends and recvs match in order per ordered pair
// of stages with equal value, microbatch and bytes; collectives between stages match in order per group; no deadlock; the
// memory of a send or recv in flight is touched by no run that is not ordered with it; each buffer of a bucket is what some
// call binds.
Status verifySchedule(const plan::Plan &plan);

// One part of it. `steps`: of each stage.
void checkRuns(const plan::Plan &plan, const std::vector<std::vector<plan::ExpandedStep>> &steps, Problems &problems);

} // namespace mgc::schedule
