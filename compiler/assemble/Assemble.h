// The module of phase fuse, proved by runPhases -> its plan, as far as it is known before kernels are compiled.
#pragma once

#include "compiler/assemble/Programs.h"
#include "plan/Plan.h"

namespace mgc {

struct AssembledPlan {
  plan::Plan plan; // without names and files of kernels
  KernelGraphs kernels;
};

// leastBudget: where the error is that of --memory, the least that would do.
Result<AssembledPlan> assemble(mlir::ModuleOp module, std::optional<int64_t> *leastBudget = nullptr);

} // namespace mgc
