// The form of the step's functions (StepBuilder.h) after the phases stage and step. That sums run over the right axes, and slices,
// gathers and demotions too, are the types' rules (AxisRule.h); the rest stands here. Errors are diagnostics.
#pragma once

#include "compiler/step/StepBuilder.h"

namespace mgc {

// 1. a bucket treats its parameters as their types say: split, reduce, data, tie, rule (step_c1)
// 2. arguments and results are buffers of the stage, with the types of these (step_c2)
// 3. begin gives zeros: all that a step adds to (step_c3)
// 4. each gradient is completed once, by changes of its layout alone, in the order of StepBuilder.h (step_c4)
// 7. clear gives zeros; accumulate adds a unit's gradient, of which only the layout changes, to its slice; gather gives the unit's
//    values, of whose slices only the layout changes (step_c7)
// 8. the pieces of a bucket's update are those that optimizer_offload_fraction gives it, and bind its states (step_c8)
// Until ops stand in kernels:
// 5. a result of the step is the sum of what blocks have added to it, and the norm one of the squares of each complete gradient,
//    a tied one's on the first of its stages; the factor is made of it, the tokens and the clip (step_c5)
// 6. each bucket is updated once, by its rule, of its own buffers (step_c6)
mlir::LogicalResult verifyStepForm(mlir::ModuleOp module, const Blocks &blocks, llvm::ArrayRef<StageOp> stages);

// After verifyStepForm: the step's functions are local.
mlir::LogicalResult verifyStepIsLocal(mlir::ModuleOp module);

} // namespace mgc
