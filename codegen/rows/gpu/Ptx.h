// The back end of compileKernels for GPUs: one module of kernels to PTX text.
#pragma once

#include "codegen/rows/graph/RowGraph.h"
#include "plan/KernelLevel.h"

namespace mgc::rowgen {

// Thread-safe: makes its own contexts. `printed`, if set, receives the MLIR. Error: what a kernel calls that PTX does not
// have.
Status compilePtx(const std::vector<const NamedGraph *> &kernels, plan::KernelLevel level, std::string &text,
                  std::string *printed);

// One text of several: its names are distinct, the header stands once. No texts: the header alone.
Result<std::string> joinPtx(const std::vector<std::string> &texts, plan::KernelLevel level);

} // namespace mgc::rowgen
