// What a module is after each phase up to stage, beyond what the op verifiers prove: each function proves what
// its phase adds, which holds after all later phases too (but the logical form, whose blocks grad replaces). Errors are
// diagnostics.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Of import and merge. Blocks are logical; their data is of a known kind, each parameter names its tensor and is used.
mlir::LogicalResult verifyImportForm(mlir::ModuleOp module);

// Each block has the functions that the schedule runs. Backward functions take what forward gives, in its type;
// each saved value is taken, each activation has its din, each parameter one gradient.
mlir::LogicalResult verifyGradForm(mlir::ModuleOp module);

// Every value can lie on the mesh; the op verifiers prove each op's axis rule.
mlir::LogicalResult verifyShardForm(mlir::ModuleOp module);

// Nothing is split or pending; each argument and result of a block is the local part of its sharded type.
mlir::LogicalResult verifyLocalForm(mlir::ModuleOp module);

// One mg.stage per coordinate along pp, each with the same number of chunks. The chunks of all stages in order
// are a chain: each instance once, each value crosses once, the last instance returns the loss. Buckets
// say what their parameters' types say, and the functions of the step's end do what the buckets say (VerifyStepEnd.h).
mlir::LogicalResult verifyStageForm(mlir::ModuleOp module);

} // namespace mgc
