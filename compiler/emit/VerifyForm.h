// The form that emit takes: what the type system and the op verifiers do not already prove.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/base/Status.h"

namespace mgc {

// Every op of a function has its places, every stage its schedule and memory map, every bound argument and
// result a buffer that exists. An error names the first that has not, and the pass that gives it.
Status verifyMemoryForm(mlir::ModuleOp module);

} // namespace mgc
