// How long tasks take, as far as scheduling asks: an estimate by FLOPs, in units of one FLOP.
#pragma once

#include "compiler/assemble/schedule/Schedule.h"
#include "compiler/program/Blocks.h"

namespace mgc {

// Of one call. Row ops count the elements they visit: a table is not read as a whole.
double flopsOf(mlir::func::FuncOp function);

// Of one microbatch in a chunk of these instances.
schedule::ChunkCost costOf(llvm::ArrayRef<Instance> chunk);

// Of a message of so many bytes between two stages.
double messageCost(int64_t bytes);

} // namespace mgc
