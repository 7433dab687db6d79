// The positions of a sample that meet a parameter. In: a plan whose lengths are sound; out: violations.
#pragma once

#include "plan/Checks.h"

namespace mgc::plan {

// They are those of a sequence of the plan: of its own, the encoder's, an image's, or of an image's features.
void verifyPositions(Checks &checks, const Parameter &parameter, const Place &place);

} // namespace mgc::plan
