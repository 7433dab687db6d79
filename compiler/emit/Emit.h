// The module of phase fuse, proved by runPhases -> the bundle: plan.json and the kernels, for CPUs of each level or for
// GPUs of one.
#pragma once

#include "dialects/mg/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "plan/Plan.h"
#include "runtime/base/Status.h"

#include <filesystem>
#include <functional>

namespace mgc {

// The values of kTargetAttr: "cpu", then "cuda:" and the name of each level of GPUs.
std::vector<std::string> targets();

struct EmitOptions {
  // CPUs that row kernels are compiled for where the target is cpu, as rowgen::CpuTarget; at most one per level.
  std::vector<std::string> cpus = {"x86-64-v3", "x86-64-v4"};
  int threads = 0;                               // compiling; 0: all cores
  bool force = false;                            // replaces a plan.json that is none of ours
  std::optional<int64_t> *leastBudget = nullptr; // if set, and the error is that of --memory: the least that would do
  std::string *kernelText = nullptr;             // if set: the row kernels' MLIR
  // If set: called in this order before kernels are compiled.
  std::function<Status(plan::Plan &)> tune = nullptr, complete = nullptr;
};

// Writes the bundle and proves it: the plan reads back equal, its structure verifies, its schedule cannot
// deadlock. Returns the plan.
Result<plan::Plan> emitBundle(mlir::ModuleOp module, const std::filesystem::path &directory,
                              const EmitOptions &options = {});

// Removes the bundle in the folder, where there is one that can be read, and the folder if nothing else is in it.
void removeBundle(const std::filesystem::path &directory);

} // namespace mgc
