// What shard adds to a program.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Every value can lie on the mesh; the op verifiers prove each op's axis rule. Errors are diagnostics.
mlir::LogicalResult verifyShardForm(mlir::ModuleOp module);

} // namespace mgc
