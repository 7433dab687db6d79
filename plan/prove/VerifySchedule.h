// Proof on a finished (perhaps edited) plan that its schedule can run. In: a plan. Out: success or all
// problems.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

namespace mgc::schedule {

// Steps and waits are well formed; sends and recvs match in order per ordered pair of stages with equal
// value, microbatch and bytes; collectives between stages match in order per group; no deadlock; the memory
// of a send or recv in flight is touched by no run that is not ordered with it; each buffer of a bucket is
// what some call binds.
Status verifySchedule(const plan::Plan &plan);

} // namespace mgc::schedule
