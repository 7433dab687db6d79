// A plan as read from a file -> proof that the runtime can rely on its structure, or all that is wrong with it.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

namespace mgc::plan {

// Every index is in range, every axis is in the mesh, no size overflows, every address lies inside what it points into
// and is aligned, regions cover the allocation, buckets hold their parameters side by side. Lists up to 20 violations,
// each with its place: "stages[1].chunks[0].calls[3]: ...". The rest of provePlan proves the interaction of steps.
Status verifyPlan(const Plan &plan);

} // namespace mgc::plan
