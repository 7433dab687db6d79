// Constructors and registration of all passes of the compiler.
#pragma once

#include "compiler/program/FormPass.h"
#include "dialects/mg/Mg.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"

namespace mgc {

// On the module: every matrix product stays as the model has it, every row op is a kernel of its own.
inline constexpr llvm::StringLiteral kNoFusionAttr = "mg.no_fusion";

#define GEN_PASS_DECL
#include "compiler/program/Passes.h.inc"

std::unique_ptr<mlir::Pass> createEvaluatePass();
std::unique_ptr<mlir::Pass> createMergePass();
std::unique_ptr<mlir::Pass> createGradPass();
std::unique_ptr<mlir::Pass> createShardPass();
std::unique_ptr<mlir::Pass> createLocalPass();
std::unique_ptr<mlir::Pass> createRingPass();
std::unique_ptr<mlir::Pass> createOrderRowsPass();
std::unique_ptr<mlir::Pass> createStagePass();
std::unique_ptr<mlir::Pass> createTilePass();
std::unique_ptr<mlir::Pass> createFuseEpiloguesPass();
std::unique_ptr<mlir::Pass> createFusePass();

} // namespace mgc
