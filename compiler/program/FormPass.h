// FormPass: the base class of passes of the pipeline. Passes.td says of each which phases' forms it takes.
#pragma once

#include "dialects/mg/Mg.h"
#include "mlir/Pass/Pass.h"

#include <algorithm>

namespace mgc {

// Refuses a module in a phase that is none of `takes`, and names the passes that are missing. A module without mg.phase is taken as it is: nothing says which form it has.
mlir::LogicalResult verifyPhase(mlir::ModuleOp module, llvm::StringRef pass, llvm::ArrayRef<llvm::StringRef> takes);

// The name of a phase as an argument of a template.
template <size_t size> struct PhaseName {
  char text[size]{};
  consteval PhaseName(const char (&name)[size]) { std::copy_n(name, size, text); }
};

template <PhaseName... phases> class FormPass : public mlir::OperationPass<mlir::ModuleOp> {
protected:
  using mlir::OperationPass<mlir::ModuleOp>::OperationPass;
  virtual void runOnForm() = 0;

private:
  void runOnOperation() final {
    if (failed(verifyPhase(getOperation(), getArgument(), {llvm::StringRef(phases.text)...})))
      return signalPassFailure();
    runOnForm();
  }
};

} // namespace mgc
