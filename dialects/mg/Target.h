// What a module is compiled for.
#pragma once

#include "dialects/mg/Mg.h"
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

// Whether the ranks exchange data in it; slices and demotes are collectives in form alone.
inline bool isCollective(mlir::Operation *op) {
  return mlir::isa<CollectiveOpInterface>(op) && !mlir::isa<SliceOp, DemoteOp>(op);
}

// What the phases decide by.
struct TargetFacts {
  bool collectivesRunBeside = false; // the products that follow them, until something needs what they make
};
inline TargetFacts factsOf(plan::Target target) {
  switch (target) {
  case plan::Target::cpu: // threads of a rank do one thing after another
    return {};
  case plan::Target::cuda:
    return {.collectivesRunBeside = true};
  }
  return {};
}

} // namespace mgc
