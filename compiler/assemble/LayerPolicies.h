// The variant of its block that each instance of a chunk has: what it recomputes in backward (compiler/grad/Recompute.h). The IR says of
// an instance only its block; a variant has the same parameters, activations and gradients, and other saved values.
#pragma once

#include "compiler/program/Blocks.h"

namespace mgc {

// With --recompute-method block the first layers of each stack in the chunk have the variant "full"; else no instance has one.
std::vector<Instance> withVariants(std::vector<Instance> chunk, const Blocks &blocks, const TrainingSettings &training);

} // namespace mgc
