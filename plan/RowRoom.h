// The part of a plan's memory that is room for more rows of experts than the mean.
#pragma once

#include "plan/Plan.h"

namespace mgc::plan {

// By stage, bytes of a rank that it would not need, about, if experts had equally many rows (EvenLoad): what less lives together
// in its largest frame, and what less its microbatches keep for their backward, as large a part of their memory as of their
// rings.
std::vector<int64_t> roomBeyondMean(const Plan &plan);

} // namespace mgc::plan
