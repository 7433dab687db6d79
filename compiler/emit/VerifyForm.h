// What a module is after the phases fuse, schedule and memory, as compiler/stage/VerifyForm.h has it for those
// before.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mgc {

// Functions hold library calls, row kernels, moves and collectives. Each result of a block has memory of its
// own (saved activations aside), and what is added to its place is made by what can add. Parts of values are read, and
// joined ones made, by ops that let rows lie apart.
mlir::LogicalResult verifyFuseForm(mlir::ModuleOp module);

// Each stage has one mg.schedule, and together they are a solution of the problem that the chunks pose:
// schedule::verify.
mlir::LogicalResult verifyScheduleForm(mlir::ModuleOp module);

// Each stage has a memory map whose parts lie apart inside the rank's allocation; in each function, values that
// live together lie apart in the frame.
mlir::LogicalResult verifyMemoryForm(mlir::ModuleOp module);

} // namespace mgc
