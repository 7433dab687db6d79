// The steps from MLIR to LLVM IR that the kernels of every target go through.
#pragma once

#include "codegen/rows/graph/RowGraph.h"
#include "mlir/IR/BuiltinOps.h"

namespace mgc::rowgen {

// Structured loops to branches.
bool lowerLoops(mlir::Operation *module);

// The range, scalars and uses of operands that a plan must give a kernel, as plan::RowKernel lays them out.
std::vector<int64_t> needsOf(const KernelInfo &info);

// Collects what MLIR has to say about a module of kernels, for the error that ends its compilation.
class ModuleDiagnostics {
public:
  ModuleDiagnostics(mlir::MLIRContext &context, const std::vector<const NamedGraph *> &kernels);
  Status failure(std::string_view step) const;

private:
  const std::vector<const NamedGraph *> &kernels_;
  std::string text_;
  mlir::ScopedDiagnosticHandler handler_;
};

std::string printed(mlir::ModuleOp module);

} // namespace mgc::rowgen
