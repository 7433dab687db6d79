// The back end of compileKernels: one module of kernels to a native object per
// target, the objects of a target to one shared object.
#pragma once

#include "codegen/rows/cpu/CpuTarget.h"
#include "codegen/rows/graph/RowGraph.h"

namespace mgc::rowgen {

// A kernel, and others that are the same code: they have symbols and needs of their own.
struct KernelCode {
  const NamedGraph *graph;
  std::vector<const NamedGraph *> others;
};

// Thread-safe: makes its own contexts. `objects` receives the bytes of an object file per target; `printed`, if
// set, the MLIR.
Status compileModule(const std::vector<KernelCode> &kernels, const std::vector<CpuTarget> &targets,
                     std::vector<std::string> &objects, std::string *printed);

// Error: failed, an unresolved symbol.
Status linkSharedObject(const std::vector<std::string> &objects, const std::string &path);

Status writeFile(const std::string &path, const std::string &bytes);

} // namespace mgc::rowgen
