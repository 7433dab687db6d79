// The form of a program after the phase memory: proves the facts that memory establishes.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Each stage has a memory map whose parts lie apart inside the rank's allocation; in each function, values that
// live together lie apart in the frame. Errors are diagnostics.
mlir::LogicalResult verifyMemoryForm(mlir::ModuleOp module);

} // namespace mgc
