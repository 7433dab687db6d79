// Where the values of a function lie while it runs, and which of its all-reduces work in place. A value that is no
// result lives in the frame from its definition to its last use; a workspace while its op runs. A kernel's result lies
// where a value of its type lay that the kernel reads for the last time, if there is one. A value that a tile reads or
// makes as a whole lives while any of its parts is worked on; a value of the tile's body, once for all parts.
// Collectives run concurrently with the ops that follow: their operands live until an op needs their result, for only
// then they are known to be done.
#pragma once

#include "compiler/assemble/memory/MemorySolver.h"
#include "dialects/mg/Mg.h"
#include "runtime/base/Status.h"

#include <map>

namespace mgc {

struct FunctionFrame {
  int64_t bytes = 0;
  int64_t leastBytes = 0; // the largest set of values that live together: a lower bound of any placement
  std::vector<memory::LiveBuffer> buffers; // all that has memory in it, with lifetimes in ops
  // Places in the frame. Views, parts of a joined value, results of the function and of tiles, and what is reduced in an
  // argument's place have none.
  llvm::DenseMap<mlir::Value, int64_t> offsets;
  llvm::DenseMap<mlir::Operation *, int64_t> workspaces;
  // All-reduces whose result has the operand's memory: the operand dies there, and is a value of the frame or a gradient
  // bucket; the result is not returned.
  llvm::DenseSet<mlir::Operation *> inPlace;
  // Results of a step's function, by the sums of slices that only all-reduces stand behind: the slice lies where the result does.
  llvm::DenseMap<mlir::Value, mlir::Value> inResults;
};

using Frames = std::map<std::string, FunctionFrame>; // by name of the function

// The frame of a function of phase fuse. Error: values that add up to more than 64 bits hold.
Result<FunctionFrame> placeFrame(mlir::func::FuncOp function);

} // namespace mgc
