// The buckets of stages against the parameters that they hold, after the phase stage: step_c1 of VerifyStepForm.h. A bucket's axes, tie,
// rule and share of ZeRO are those that the types of its parameters and mg.param say, its elements whole rows of a slice for each
// rank. Errors are diagnostics.
#pragma once

#include "compiler/program/Blocks.h"
#include "dialects/mg/Mg.h"

namespace mgc {

mlir::LogicalResult verifyStepBuckets(mlir::ModuleOp module, const Blocks &blocks, llvm::ArrayRef<StageOp> stages);

} // namespace mgc
