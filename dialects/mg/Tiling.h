// Ops that may run on one part after another of a dimension (mg.tile). In: ops in order. Out: whether each may, and
// what its results are then.
#pragma once

#include "dialects/mg/Mg.h"

#include "llvm/ADT/DenseMap.h"

namespace mgc {

class TileFlow {
public:
  enum class State {
    whole,   // the same for every part
    part,    // its first dimension is the tiled one
    summand, // the parts' values add up to it; incomplete until the last part is done
    neither, // has the dimension, but not first
  };

  explicit TileFlow(mlir::StringAttr dim) : dim_(dim) {}

  // Takes the op in, after all that it uses. False: it may not be tiled. An op may where each result has the dimension
  // first or is a sum over it, or is linear in summands; one that is the same for every part may not.
  bool add(mlir::Operation *op);
  State stateOf(mlir::Value value) const;

private:
  bool addCompute(ComputeOpInterface op);
  bool addKernel(KernelOp kernel);
  // The joint state of the operands; nothing when they do not go together.
  std::optional<State> join(mlir::Operation *op, llvm::ArrayRef<Linear> linear) const;

  mlir::StringAttr dim_;
  llvm::DenseMap<mlir::Value, State> summands_; // states that the value's type does not give
};

} // namespace mgc
