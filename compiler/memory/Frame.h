// The values in the frame of a function while it runs, and their lifetimes. A value that is no result lives from its
// definition to its last use; a workspace while its op runs. A kernel's result lies where a value of its type lay that
// the kernel reads for the last time, if there is one. A value that a tile reads or makes as a whole lives while any of
// its parts is worked on; a value of the tile's body, once for all parts. Where collectives run concurrently with the
// ops that follow (Target.h), their operands live until an op needs their result: only then they are known to be done.
#pragma once

#include "compiler/assemble/memory/MemorySolver.h"
#include "dialects/mg/Mg.h"

namespace mgc {

struct FunctionFrame {
  struct Places {
    mlir::Operation *op;
    // One per result, then one for a workspace: an index into `buffers`, or -1 for what has its place already:
    // it is returned, a part of a joined value, or has the operand's memory.
    std::vector<int64_t> buffers;
  };
  std::vector<memory::LiveBuffer> buffers; // lifetimes in ops, those of a tile between its begin and end
  std::vector<Places> places;              // of all ops but views
};

// Whether the result may have the operand's memory: a view always has; an all-reduce may where the operand
// dies in it and is a value of the frame or a gradient bucket, and the result is not returned.
bool mayWorkInPlace(mlir::Operation *op);

// The frame, given which ops are marked mg.in_place.
FunctionFrame frameOf(mlir::func::FuncOp function);

// mg.in_place is where it may be, and places in mg.frame of what lives together are apart.
mlir::LogicalResult verifyFrame(mlir::func::FuncOp function);

} // namespace mgc
