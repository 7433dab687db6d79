// The form of a program after the phase local: proves the facts that local establishes.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Nothing is split or pending; each argument and result of a block is the local part of its sharded type. Errors are
// diagnostics.
mlir::LogicalResult verifyLocalForm(mlir::ModuleOp module);

} // namespace mgc
