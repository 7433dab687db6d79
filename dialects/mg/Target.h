// What a module is compiled for.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/plan/Plan.h"

namespace mgc {

// On the module: "cuda:sm_90". Absent, or "cpu": the CPU.
inline constexpr llvm::StringLiteral kTargetAttr = "mg.target";

inline plan::Target targetOf(mlir::Operation *op) {
  auto module = llvm::dyn_cast<mlir::ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<mlir::ModuleOp>();
  auto target = module ? module->getAttrOfType<mlir::StringAttr>(kTargetAttr) : mlir::StringAttr();
  const bool isCpu = !target || target.getValue() == llvm::StringRef(plan::nameOf(plan::Target::cpu));
  return isCpu ? plan::Target::cpu : plan::Target::cuda;
}

} // namespace mgc
