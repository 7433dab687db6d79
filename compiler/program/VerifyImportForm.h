// The form of a logical program: as the frontend makes it, as a .mlir file may hold it, and after merge.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Blocks are logical; their data is of a known kind, each parameter names its tensor and is used. Errors are diagnostics.
mlir::LogicalResult verifyImportForm(mlir::ModuleOp module);

} // namespace mgc
