// The rule table of a program: Megatron-LM's (megatron-rules.json) or the user's (`mgc compile --rules FILE`). Both are
// JSON files of one form: docs/sharding.md, The rule table.
#pragma once

#include "dialects/mg/Mg.h"
#include "runtime/base/Status.h"

namespace mgc::frontend {

// Sets mg.placement of a module that has mg.mesh and mg.training.
void setMegatronRules(mlir::ModuleOp module);

// Replaces it by the table in a file. Errors list all rows that cannot be, each with what would do: dimensions of the
// module, axes of its mesh, names of ops.
Status setRules(mlir::ModuleOp module, const std::string &path);

} // namespace mgc::frontend
