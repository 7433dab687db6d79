// Proof on a finished (perhaps edited) plan that its schedule can run. In: a plan. Out: success or all
// violations.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

namespace mgc::schedule {

// Steps and waits are well formed; sends and recvs match in order per ordered pair of stages with equal
// value, microbatch and bytes; collectives between stages match in order per group; no deadlock; the memory
// of a send or recv in flight is touched by no run that is not ordered with it; each buffer of a bucket is
// what some call binds.
Status verifySchedule(const plan::Plan &plan);

class Violations;
void checkBuckets(const plan::Plan &plan, Violations &violations); // the last of it

} // namespace mgc::schedule
