// The use of states on the host: their update in pieces, through staging memory on the device.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Problems.h"

namespace mgc::plan {

// Whether some of the bucket's states are on the host.
bool isOffloaded(const Bucket &bucket);

// By bytes, in the order of the instructions of `update`:
// - A state's bytes on the host are copied in once, to staging memory that holds nothing else which was not copied out.
// - An instruction reads staging memory where something was copied in, and updates it there.
// - They are copied out once they are updated, to where they came from. In the end all have been.
// - A segment of a call holds one range of a state at most, if it is in staging memory.
// - A call binds the same elements of the states, the gradient and the values of a bucket.
// - Calls bind each element of gradient, values and states on the device once.
// Programs of copies, of any task, have nothing else, and copy whole segments. In: a plan that passed verifyPlan.
void verifyOffload(const Plan &plan, int64_t stage, Problems &problems);

} // namespace mgc::plan
