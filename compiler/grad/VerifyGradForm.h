// The form of a program after the phase grad: proves the facts that grad establishes.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Each block has the functions that the schedule runs. Backward functions take what forward gives, in its type;
// each saved value is taken, each activation has its din, each parameter one gradient. Errors are diagnostics.
mlir::LogicalResult verifyGradForm(mlir::ModuleOp module);

} // namespace mgc
