// The proof on one stage's list of steps, with its repeats: whatever a step reads is there, complete and of its microbatch, and
// nothing is overwritten while a step may still read or write it. In: a plan that passed verifyPlan. docs/proof.md has the
// argument.
#pragma once

#include "plan/prove/ChunkFlow.h"

namespace mgc::plan {

void proveStage(const Plan &plan, int64_t stage, Flows &flows, Problems &problems);

} // namespace mgc::plan
