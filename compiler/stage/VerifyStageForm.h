// The form of a program after the phase stage: proves the facts that stage establishes.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// One mg.stage per coordinate along pp, each with the same number of chunks. The chunks of all stages in order
// are a chain: each instance once, each value crosses once, the last instance returns the loss. Buckets and the
// functions of the step have the form that VerifyStepForm.h says. Errors are diagnostics.
mlir::LogicalResult verifyStageForm(mlir::ModuleOp module);

} // namespace mgc
