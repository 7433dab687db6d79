// Bounds of a stage's choices, in time that does not grow with their number.
#pragma once

#include "compiler/assemble/budget/Budget.h"

namespace mgc::budget {

// No choice takes less: each layer keeps the least that some policy of it keeps, and has the least frame that one has.
int64_t leastBytes(const StageLayers &stage);
// No choice of at most so many bytes takes fewer seconds in all, by its largest moment alone, of which a layer may have a part of one
// policy and a part of another. Infinite: none does.
double leastSeconds(const StageLayers &stage, int64_t capacity);

} // namespace mgc::budget
