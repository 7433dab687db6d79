// The variant of its block that each instance of a chunk has: what it recomputes in backward (compiler/grad/Recompute.h). The IR says of
// an instance only its block; a variant has the same parameters, activations and gradients, and other saved values.
#pragma once

#include "compiler/program/Blocks.h"

namespace mgc {

// With --recompute-method block the first layers of each stack in the chunk have the variant "full". With uniform and several
// layers a unit, all have it, and so many neighbours of a stack are a unit: what enters the first is kept, and backward recomputes the
// rest, by the forward of the blocks themselves, whose backward follows; the last of a stack may be fewer (Megatron-LM,
// transformer_block.py, _checkpointed_forward). By itself is a layer that adds to totals of the step or saves choices, for that
// happens once. Else no instance has a variant.
// With activation_offload_fraction so many of the layers that save something for the host are offloaded, but for the chunk's last,
// whose backward comes at once: the first ones, whose values would stay longest (Megatron-LM, fine_grained_activation_offload.py).
std::vector<Instance> withVariants(std::vector<Instance> chunk, const Blocks &blocks, const TrainingSettings &training);

} // namespace mgc
