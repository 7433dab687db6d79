// Proof that sends meet the receives that the library matches them with: untagged, per ordered pair of stages in the order of the
// lists. In: a plan that passed verifyPlan.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Problems.h"

namespace mgc::plan {

// The k-th send from a stage to another and the k-th receive there from it have the same value, microbatch and bytes; there are as
// many of both. Both lists are followed side by side; in repeats, a whole common period of both is followed once.
void proveMatching(const Plan &plan, Problems &problems);

} // namespace mgc::plan
