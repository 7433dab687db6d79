// The use of units (ZeRO-2 and 3, and of buckets whose values are gathered): their memory has one after another, of which values are gathered and gradients added to slices.
#pragma once

#include "plan/Units.h"
#include "plan/prove/ChunkFlow.h"
#include "runtime/base/Problems.h"

namespace mgc::plan {

// In the order of a chunk's calls:
// - A unit's gradient is cleared, one call adds to it, which binds gradients of its own instance there, and the next adds it
//   to the unit's slice; only then comes another unit in its memory. Each unit is added in some chunk.
// - A unit's values are gathered of its slice before a call that reads some. The call binds values of its own instance there
//   and writes none. They are there until another unit comes in their memory, which does not overwrite a gradient that was
//   not added yet. Some call gathers to each such memory.
// - Where all units' values have memory of their own, each has its own place, and StageFlow.h proves that it was gathered in
//   the step.
// Units whose memory and parameters lie alike, as those of an untied table and head may, are not told apart. In: a plan that
// passed verifyPlan.
void verifyUnits(const Plan &plan, int64_t stage, const Units &units, Flows &flows, Problems &problems);

} // namespace mgc::plan
