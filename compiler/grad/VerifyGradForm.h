// The form of a program after the phase grad: proves the facts that grad establishes.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Each block has the functions that the schedule runs. Backward functions take what forward gives, in its type;
// each saved value is taken, each activation that has a gradient its din, each parameter that is trained one gradient. A result
// without gradient is made of nothing that has one, and the next block of the chain takes it as such. Errors are diagnostics.
mlir::LogicalResult verifyGradForm(mlir::ModuleOp module);

} // namespace mgc
