// The form of a program after the phase shard: proves the facts that shard establishes.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Every value can lie on the mesh; the op verifiers prove each op's axis rule. Errors are diagnostics.
mlir::LogicalResult verifyShardForm(mlir::ModuleOp module);

} // namespace mgc
