// Table of what becomes of parameters at the end of a step. A rule is a row: the builder of the step, its verifier and the table of
// state buffers read it.
#pragma once

#include "dialects/mg/Mg.h"
#include "plan/ParameterBuckets.h"

namespace mgc {

// Operands of the op that updates a bucket's slice.
struct UpdateOperands {
  BucketOp bucket;
  mlir::Value value;    // the masters, or the values where there are none
  mlir::Value gradient; // complete
  llvm::SmallVector<mlir::Value> states;
  mlir::Value factor, scalars; // for the gradient; plan::kStepScalars
};

struct UpdateRule {
  llvm::StringRef name;
  plan::BucketUse use;
  bool hasGradients;                   // or load in their place
  bool isInNorm;                       // the gradients are clipped, with all others
  std::vector<llvm::StringRef> states; // plan::kOptimizerStates of it
  // The op whose results are the new value and states; null: nothing updates the values.
  mlir::Operation *(*build)(mlir::OpBuilder &builder, mlir::Location loc, const UpdateOperands &operands);
};

const UpdateRule &ruleOf(plan::BucketUse use, plan::Optimizer optimizer);
const UpdateRule &ruleOf(BucketOp bucket);

} // namespace mgc
