// Checks of verifyStageForm on buckets and on the functions that run once per step (StepEnd.h). Errors are diagnostics.
#pragma once

#include "compiler/stage/StepEnd.h"

namespace mgc {

// Each bucket treats its parameters as their types say (VerifyBuckets.cpp). Blocks have mg.type.
mlir::LogicalResult verifyBuckets(mlir::ModuleOp module, const Blocks &blocks, llvm::ArrayRef<StageOp> stages);

// Arguments and results are buffers of the stage, whole; begin gives zeros; reduce and the reductions sum each bucket's
// gradient once, over the ranks and stages that have parts of it.
mlir::LogicalResult verifyStepEnd(StageOp stage, MeshAttr mesh);

// After verifyStepEnd. Totals and squares of gradients are summed over all ranks, each part once (VerifyTotals.cpp).
mlir::LogicalResult verifyTotals(StageOp stage, MeshAttr mesh, const TotalAxes &totals);

// After verifyStepEnd. Each bucket is updated once, each rank's part by that rank (VerifyUpdate.cpp).
mlir::LogicalResult verifyUpdate(StageOp stage);

} // namespace mgc
