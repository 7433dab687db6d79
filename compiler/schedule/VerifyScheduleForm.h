// The form of a program after the phase schedule: proves the facts that schedule establishes.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Each stage has one mg.schedule, and together they are a solution of the problem that the chunks pose: schedule::verify.
// Errors are diagnostics.
mlir::LogicalResult verifyScheduleForm(mlir::ModuleOp module);

} // namespace mgc
