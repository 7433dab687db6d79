// Products that a stack computes once more than the plan (SoftwareStack::repeatsLastProduct): where full recomputation computes all of a
// layer again, also its last product, which our slices leave out.
#pragma once

#include "plan/cost/ProgramTime.h"

namespace mgc::cost {

// By program of the plan: what a call takes besides.
std::vector<ProgramTime> repeatedProducts(const Cluster &cluster, const plan::Plan &plan);

} // namespace mgc::cost
