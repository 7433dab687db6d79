// The instruction of the plan that an op is, and on which values.
#pragma once

#include "mlir/IR/Value.h"
#include "plan/instructions/Instruction.h"

namespace mgc {

struct InstructionCall {
  plan::InstructionBody body;
  llvm::SmallVector<mlir::Value, 12> operands; // in the instruction's order, results last; a workspace follows
};

} // namespace mgc
