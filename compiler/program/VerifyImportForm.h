// What the frontend gives, a .mlir file holds and merge leaves.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Blocks are logical; their data is of a known kind, each parameter names its tensor and is used. Errors are diagnostics.
mlir::LogicalResult verifyImportForm(mlir::ModuleOp module);

} // namespace mgc
