// The use of units (ZeRO-2 and 3): their memory has one after another, of which values are gathered and gradients added to slices.
#pragma once

#include "plan/Units.h"
#include "plan/prove/ChunkFlow.h"
#include "runtime/base/Problems.h"

namespace mgc::plan {

// In the order of a chunk's calls:
// - A unit's gradient is cleared, one call adds to it, which binds gradients of its own instance there, and the next adds it to the unit's
//   slice; only then comes another in its memory. Each unit is added in some chunk.
// - A unit's values are gathered of its slice before a call that reads some, which binds values of its own instance there and writes
//   none; until others come in their memory, and there is no such memory to which none are gathered. Gradients that are not yet added are not overwritten. Where all units' values have memory
//   of their own, each has its own place, and StageFlow.h proves that it was gathered in the step.
// Units whose memory and parameters lie alike, as those of an untied table and head may, are not told apart where they are added. In: a
// plan that passed verifyPlan.
void verifyUnits(const Plan &plan, int64_t stage, const Units &units, Flows &flows, Problems &problems);

} // namespace mgc::plan
