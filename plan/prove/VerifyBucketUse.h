// The offsets that a plan gives for its buckets and parameters are those that its programs work on.
#pragma once

#include "plan/Plan.h"
#include "plan/prove/ChunkFlow.h"
#include "runtime/base/Problems.h"

namespace mgc::plan {

// begin, which zeroes, and reduce bind each gradient whole, update each buffer; calls of a microbatch bind whole parameters
// and gradients, those of their instance, and use units as VerifyUnits.h says; all that the step's end binds in the regions of states
// is a state; collectives have the type of the buffers that they work on. In: a plan that passed verifyPlan.
void verifyBucketUse(const Plan &plan, Flows &flows, Problems &problems);

} // namespace mgc::plan
