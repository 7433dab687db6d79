// Library calls: local einsum and attention ops as the runtime's gemm and attention.
#pragma once

#include "dialects/mg/Mg.h"
#include "runtime/plan/Plan.h"

namespace mgc {

// What the op does, workspace included. Precondition: einsum's runs merge (einsum_c2).
plan::Gemm gemmOf(EinsumOp op);
plan::Attention attentionOf(mlir::Operation *op); // attention or attention_grad

// Bytes of scratch memory that the op needs besides its operands and results; 0 for none.
int64_t workspaceBytes(mlir::Operation *op);

} // namespace mgc
