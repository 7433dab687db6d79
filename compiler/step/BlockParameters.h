// How each parameter of a block is treated at the end of a step: read off its type, that of its gradient, and mg.param.
#pragma once

#include "compiler/program/Blocks.h"
#include "compiler/step/Buckets.h"

namespace mgc {

// Parameters of the block's forward function, in the order of its arguments. An error where mg-grad, mg-shard or mg-local have not been
// at the block.
mlir::FailureOr<std::vector<BlockParameter>> parametersOf(const ModelBlock &block);

// How the program shares out training state.
Sharding shardingOf(mlir::ModuleOp module);

} // namespace mgc
