// The phases of the compiler as one table, driven by one loop: docs/ir.md.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/base/Status.h"

#include <filesystem>

namespace mgc {

struct Phase {
  llvm::StringLiteral name;
  llvm::StringLiteral description;
  void (*build)(mlir::OpPassManager &);
  // Proves what the phase adds to the form.
  mlir::LogicalResult (*verify)(mlir::ModuleOp);
  bool holdsLater = true; // what it proves, after all later phases too; grad replaces the logical blocks
  llvm::SmallVector<llvm::StringRef, 2> reads = {}; // attributes of the module that it decides by
};

// In order. The first, "import", has no passes: it is what the frontend gives or a .mlir file holds.
llvm::ArrayRef<Phase> phases();
std::string phaseNames(); // "import, merge, ..."

struct PhaseOptions {
  std::string from;                    // the phase the module is in; empty: mg.phase of the module, or import
  std::string to;                      // empty: the last
  std::filesystem::path dumpDirectory; // not empty: NN-PHASE.mlir after each phase
};

// The phase the module is in: `from`, or where that is empty, what the module says, or import.
std::string phaseOf(mlir::ModuleOp module, const std::string &from);

// That no phase that reads the attribute is done, so that the flag, which sets it, has its whole effect. `from` as in
// PhaseOptions.
Status verifyUnread(mlir::ModuleOp module, const std::string &from, llvm::StringRef attribute,
                    llvm::StringRef flag);

// An error where a file lies there that does not begin like printed IR.
Status verifyReplaceableModule(const std::string &path);

// Prints the IR into a file; an empty path is standard output.
Status writeModule(mlir::ModuleOp module, const std::string &path);

// Runs the phases after `from` up to `to`. The module's form is proved before the first and after each.
// Messages of passes and verifiers become the error.
Status runPhases(mlir::ModuleOp module, const PhaseOptions &options);

} // namespace mgc
