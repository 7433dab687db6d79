// The target that a module is compiled for.
#pragma once

#include "dialects/mg/Mg.h"
#include "plan/Types.h"

namespace mgc {

// On the module: "cuda:sm_90". Absent, or "cpu": the CPU.
inline constexpr llvm::StringLiteral kTargetAttr = "mg.target";

// The target of such a name: the part before the colon.
inline plan::Target targetNamed(llvm::StringRef name) {
  const bool isCpu = name.split(':').first == llvm::StringRef(plan::nameOf(plan::Target::cpu));
  return isCpu ? plan::Target::cpu : plan::Target::cuda;
}

inline plan::Target targetOf(mlir::Operation *op) {
  auto module = llvm::dyn_cast<mlir::ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<mlir::ModuleOp>();
  auto target = module ? module->getAttrOfType<mlir::StringAttr>(kTargetAttr) : mlir::StringAttr();
  return target ? targetNamed(target.getValue()) : plan::Target::cpu;
}

// Whether the ranks exchange data in it; slices and demotes are collectives in form alone.
inline bool isCollective(mlir::Operation *op) {
  return mlir::isa<CollectiveOpInterface, ExchangeOp>(op) && !mlir::isa<SliceOp, DemoteOp>(op);
}

// Properties that a target's machines have in common, as far as compiling depends on them.
struct TargetFacts {
  // Operations of a large matrix product per byte of memory traffic, where both take as long. CPUs:
  // docs/performance.md. GPUs, by their data sheets with 70 % of the dense bf16 peak: A100 107, H100 207, H200 144,
  // B200 197.
  int64_t balance;
  bool leavesCoresToProducts; // plan::leavesCoresToProducts
  bool productEpilogues;      // biases in the call of a matrix product: mg.linear
};

constexpr TargetFacts factsOf(plan::Target target) {
  const int64_t balance = target == plan::Target::cpu ? 9 : 200;
  return {balance, plan::leavesCoresToProducts(target), plan::hasEpilogues(target)};
}

} // namespace mgc
