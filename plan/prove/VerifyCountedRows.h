// Rows of which a program writes only those that there are (OperandInfo::isCounted) are read by programs that do the same.
#pragma once

#include "plan/prove/ChunkFlow.h"

namespace mgc::plan {

// Checks each slot of a ring, and the allocation outside of frames: no step reads whole, or sends, bytes that any step
// writes counted; and transient memory, in the order of calls. Copies between host and device carry rows as they are.
// In: a plan that passed verifyPlan, and the flows of its programs.
void verifyCountedRows(const Plan &plan, Flows &flows, Problems &problems);

} // namespace mgc::plan
