// Compiles row graphs to native shared objects, one per target, or to PTX text:
//   RowGraph -> scf, arith, math, vector, llvm dialects -> LLVM -> objects -> lld
//   RowGraph -> gpu, scf, arith, math, vector, llvm dialects -> nvvm -> LLVM -> PTX
// A shared object's kernel is  void symbol(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end)
// as plan::RowKernel says; the object has no unresolved symbol and needs no library.
#pragma once

#include "codegen/rows/cpu/CpuTarget.h"
#include "codegen/rows/graph/RowGraph.h"

namespace mgc::rowgen {

struct SharedObject {
  CpuTarget target;
  std::string path;
};

// PTX text for GPUs of a compute capability and higher ones. Each kernel is
//   .visible .entry symbol(.param .u64 operand.., .param .u64 scalar..)
// with arrays symbol_needs and symbol_launch, as plan::RowKernel says; every symbol is defined in the text.
struct PtxFile {
  plan::KernelLevel level = plan::KernelLevel::sm90; // the lowest level of target cuda that runs it
  std::string path;
};

struct CompileOptions {
  int threads = 0;                // 0: all cores
  std::string *printed = nullptr; // if set: receives the kernels' MLIR as generated, before any lowering
};

KernelInfo describeKernel(const RowGraph &graph); // facts that need no code; the graph's verify() is ok

// Writes one PTX text with all kernels, for a GPU target. Out: the symbol of each graph's kernel, in order. Equal graphs are
// compiled once: it may be that of an earlier graph.
Result<std::vector<std::string>> compileKernels(const std::vector<NamedGraph> &graphs, const PtxFile &output,
                                                const CompileOptions &options = {});
// Writes the shared objects, each with all kernels. Errors: a graph that does not verify, a missing or failing linker, an
// unresolved symbol.
Result<std::vector<std::string>> compileKernels(const std::vector<NamedGraph> &graphs,
                                                const std::vector<SharedObject> &outputs,
                                                const CompileOptions &options = {});

} // namespace mgc::rowgen
