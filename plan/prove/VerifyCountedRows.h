// Rows of which a program writes only those that there are (OperandInfo::isCounted) are read by programs that do the same.
#pragma once

#include "plan/prove/ChunkFlow.h"

namespace mgc::plan {

// Of each slot of a ring, and of the allocation outside of frames: no bytes are read whole by one step, or sent, that any step
// writes counted. In: a plan that passed verifyPlan, and the flows of its programs.
void verifyCountedRows(const Plan &plan, Flows &flows, Problems &problems);

} // namespace mgc::plan
