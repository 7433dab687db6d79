// A library call: what the runtime's library does for an op, and on which values.
#pragma once

#include "mlir/IR/Value.h"
#include "plan/Plan.h"
#include <variant>

namespace mgc {

struct LibraryCall {
  std::variant<plan::Gemm, plan::Attention> body;
  llvm::SmallVector<mlir::Value, 12> operands; // in the call's order, results last; a workspace follows
};

} // namespace mgc
