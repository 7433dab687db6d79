// Compiles row graphs to one native shared object:
//   RowGraph -> scf, arith, math, vector, llvm dialects -> LLVM -> objects -> ld.lld
// Each kernel is  void symbol(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end)
// as plan::RowKernel says; the object has no unresolved symbol and needs no library.
#pragma once

#include "compiler/kernels/RowGraph.h"

namespace mgc::rowgen {

struct NamedGraph {
  std::string symbol; // a C identifier
  RowGraph graph;
};

struct TargetOptions {
  std::string cpu = "x86-64-v3";  // an LLVM CPU name, at least x86-64-v3; "native" is this machine
  int threads = 0;                // 0: all cores
  std::string *printed = nullptr; // if set: receives the kernels' MLIR as generated, before any lowering
};

struct CompiledKernel {
  std::string symbol; // equal graphs are compiled once: may be the symbol of an earlier one
  KernelInfo info;
};

// One result per graph, in order. Errors: a graph that does not verify, an unknown cpu, a missing or failing
// linker, an unresolved symbol.
Result<std::vector<CompiledKernel>> compileKernels(const std::vector<NamedGraph> &graphs,
                                                   const TargetOptions &options,
                                                   const std::string &sharedObject);

} // namespace mgc::rowgen
