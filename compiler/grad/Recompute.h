// Recomputation: the backward of a block makes values again instead of reading what its forward saved. A policy is the set of values that are saved:
// what backward reads of others it makes again, by the ops that lead there from what is saved and no more.
//
// before:  forward ops | gradient ops, which may read any value of forward
// after:   forward ops | gradient ops, and before its first reader each op that the policy recomputes
//
// A result of an op that is Discontinuous is always saved: a choice is made once.
#pragma once

#include "dialects/mg/Mg.h"

namespace mgc {

struct RecomputePolicy {
  std::string label() const;        // plan::Program::policy
  std::string name;                 // variant; empty: the block's own functions have the policy
  bool ofAll = false;               // every result of an op but choices
  std::vector<std::string> modules; // results of ops of these (kModulesAttr)
  bool ofRows = true;               // results that row ops make of what backward has anyway
};

// The policies of a block of the module, in phase merge: of each a version of the functions of the block is made. The first is
// that of the functions with the block's own name.
std::vector<RecomputePolicy> policiesOf(mlir::func::FuncOp block);

// Gradient ops are those of the body from number `firstGradient` on. isKept: whether backward has an argument of the block anyway.
// Ops that make gradients have the kModulesAttr of the op that they are a gradient of.
void recompute(mlir::Block &body, size_t firstGradient, const RecomputePolicy &policy,
               llvm::function_ref<bool(mlir::BlockArgument)> isKept);

} // namespace mgc
