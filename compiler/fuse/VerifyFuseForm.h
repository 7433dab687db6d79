// The form of a program after the phase fuse: proves the facts that fuse establishes.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Functions hold library calls, row kernels, moves and collectives. Each result of a block has memory of its
// own (saved activations aside), and what is added to its place is made by what can add. Parts of values are read, and
// joined ones made, by ops that let rows lie apart. Errors are diagnostics.
mlir::LogicalResult verifyFuseForm(mlir::ModuleOp module);

} // namespace mgc
