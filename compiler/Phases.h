// The phases of the compiler as two tables: those that give a module, driven by one loop, and those that print what is
// decided after the last of them: docs/ir.md.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/base/Status.h"

#include <filesystem>

namespace mgc {

struct Decisions;

struct Phase {
  llvm::StringLiteral name;
  llvm::StringLiteral description;
  void (*build)(mlir::OpPassManager &);
  // Proves what the phase adds to the form.
  mlir::LogicalResult (*verify)(mlir::ModuleOp);
  bool holdsLater = true; // later phases keep the form too; false: grad replaces the logical blocks
  llvm::SmallVector<llvm::StringRef, 2> reads = {}; // attributes of the module that it decides by
  bool isOfStages = false; // it makes and lowers what stages have, and leaves blocks as they are
};

// In order. The first, "import", has no passes: it is what the frontend gives or a .mlir file holds.
llvm::ArrayRef<Phase> phases();

// A phase after the last of phases(): nothing reads its text, so that no module enters there.
struct TextPhase {
  llvm::StringLiteral name;
  llvm::StringLiteral description;
  std::string (*print)(const Decisions &);
};
llvm::ArrayRef<TextPhase> textPhases();
const TextPhase *textPhaseNamed(llvm::StringRef name); // null: there is none

struct PhaseOptions {
  std::string from;                    // the phase the module is in; empty: mg.phase of the module, or import
  std::string to;                      // empty: the last; of a text phase: the last that gives a module
  std::filesystem::path dumpDirectory; // not empty: NN-PHASE.mlir after each phase, NN-PHASE.txt of text phases
};

// The phase the module is in: `from`, or where that is empty, what the module says, or import.
std::string phaseOf(mlir::ModuleOp module, const std::string &from);

// Refuses the flag, which sets the attribute, if a phase that reads the attribute is done: its effect would be partial.
// `from` as in PhaseOptions.
Status verifyUnread(mlir::ModuleOp module, const std::string &from, llvm::StringRef attribute, llvm::StringRef flag);

// An error where a file lies there that does not begin like what printPhase gives.
Status verifyReplaceableText(const std::string &path);

// Writes into a file; an empty path is standard output. A file is replaced whole or not at all.
Status writeText(const std::string &text, const std::string &path);

// The text that `--compile-to` prints: the module, or the text of a text phase. The module is in the phase that
// runPhases reached.
Result<std::string> printPhase(mlir::ModuleOp module, llvm::StringRef phase);

// Runs the phases after `from` up to `to`. The module's form is proved before the first and after each.
// Messages of passes and verifiers become the error.
Status runPhases(mlir::ModuleOp module, const PhaseOptions &options);

// Brings the blocks of a module to phase `to`, empty: the last, from the one that it is in: no phase of stages runs, so that the module
// keeps its chain and has no function of a step, and no form is proved. For who asks what blocks cost under many layouts
// (planner/search).
Status runPhasesOfBlocks(mlir::ModuleOp module, llvm::StringRef to);

} // namespace mgc
