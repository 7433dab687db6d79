// Whether weights that lie in several processes are the same in all, finite, and the rounding of their masters.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/checkpoint/BucketBuffer.h"
#include "runtime/checkpoint/RankMemory.h"

namespace mgc {

// As verifySavableWeights, but of each copy of a block its process looks at it and tells the writer a hash of its bits, and what
// is wrong with it. All processes call it; the answer is the writer's, and begins with `what`.
Status verifyDigests(const plan::Plan &plan, RankMemory &memory, Arenas arenas, std::string_view what);

} // namespace mgc
