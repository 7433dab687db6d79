#include "compiler/Phases.h"

#include "compiler/fuse/VerifyFuseForm.h"
#include "compiler/grad/VerifyGradForm.h"
#include "compiler/local/VerifyLocalForm.h"
#include "compiler/memory/VerifyMemoryForm.h"
#include "compiler/program/Passes.h"
#include "compiler/program/VerifyImportForm.h"
#include "compiler/schedule/VerifyScheduleForm.h"
#include "compiler/shard/VerifyShardForm.h"
#include "compiler/stage/VerifyStageForm.h"
#include "dialects/mg/Mg.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "runtime/base/File.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mgc;

ArrayRef<Phase> mgc::phases() {
  static const Phase table[] = {
      {"import", "the logical program: one function per distinct block, and the chain of instances",
       [](OpPassManager &) {}, verifyImportForm, /*holdsLater=*/false},
      {"merge", "one product where several multiply the same value",
       [](OpPassManager &pm) { pm.addPass(createMergePass()); }, verifyImportForm, /*holdsLater=*/false,
       /*reads=*/{kPlacementAttr, kNoFusionAttr}},
      {"grad", "forward functions return what is saved; backward functions",
       [](OpPassManager &pm) { pm.addPass(createGradPass()); }, verifyGradForm},
      {"shard", "every value has its layout; mg.reshard at uses",
       [](OpPassManager &pm) { pm.addPass(createShardPass()); }, verifyShardForm, /*holdsLater=*/true,
       /*reads=*/{kPlacementAttr}},
      {"local", "local shapes, explicit collectives",
       [](OpPassManager &pm) { pm.addPass(createLocalPass()); }, verifyLocalForm},
      {"stage", "chunks, buckets and the step's end per pipeline stage",
       [](OpPassManager &pm) { pm.addPass(createStagePass()); }, verifyStageForm},
      {"tile", "the loss, a part of the tokens at a time",
       [](OpPassManager &pm) { pm.addPass(createTilePass()); },
       [](ModuleOp) { return success(); }}, // mg.tile's own verifier proves all that there is
      {"fuse", "library calls, row kernels, moves and collectives",
       [](OpPassManager &pm) {
         pm.addPass(createFuseEpiloguesPass());
         pm.addPass(createFusePass());
       },
       verifyFuseForm, /*holdsLater=*/true,
       /*reads=*/{kNoFusionAttr}},
      {"schedule", "ordered steps per stage", [](OpPassManager &pm) { pm.addPass(createSchedulePass()); },
       verifyScheduleForm},
      {"memory", "an offset for every buffer", [](OpPassManager &pm) { pm.addPass(createMemoryPass()); },
       verifyMemoryForm},
  };
  return table;
}

std::string mgc::phaseNames() {
  std::string names;
  for (const Phase &phase : phases())
    names += (names.empty() ? "" : ", ") + phase.name.str();
  return names;
}

static Result<size_t> indexOf(StringRef name, StringRef flag) {
  for (auto [i, phase] : llvm::enumerate(phases()))
    if (phase.name == name)
      return i;
  return errorf("{} {}: there is no such phase\n  phases: {}", flag.str(), name.str(), phaseNames());
}

Status mgc::verifyReplaceableModule(const std::string &path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored))
    return Status::ok();
  constexpr size_t kBegin = 6; // as long as "module"
  MGC_ASSIGN(file, FileReader::open(path));
  std::string begin(std::min<size_t>(kBegin, file.size()), '\0');
  MGC_TRY(file.read(0, std::as_writable_bytes(std::span(begin))));
  const bool isModule =
      begin.empty() || begin == "module" || llvm::is_contained({'#', '!', '/'}, begin.front());
  return isModule ? Status::ok()
                  : errorf("{}: holds something else than a module; expected a new name, or --force, which "
                           "replaces it",
                           path);
}

// A file is replaced whole or not at all; a device or pipe is written to.
Status mgc::writeModule(ModuleOp module, const std::string &path) {
  std::error_code error;
  if (!path.empty() &&
      (!std::filesystem::exists(path, error) || std::filesystem::is_regular_file(path, error))) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream);
    return writeFileAtomically(path, text);
  }
  llvm::raw_fd_ostream file(path.empty() ? "-" : path, error);
  if (!error) {
    module.print(file);
    file.flush();
    error = file.error();
    file.clear_error(); // else the stream ends the process
  }
  return error ? errorf("{}: cannot be written: {}", path.empty() ? "standard output" : path, error.message())
               : Status::ok();
}

static Status dump(ModuleOp module, size_t index, const std::filesystem::path &directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  std::string name = fmt::format("{:02}-{}.mlir", index, phases()[index].name.str());
  return writeModule(module, (directory / name).string());
}

// A diagnostic as text: with its line, if it came from a file and is not about the whole module.
static std::string textOf(Diagnostic &diagnostic, Location module) {
  auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
  return place && diagnostic.getLocation() != module
             ? fmt::format("line {}: {}", place.getLine(), diagnostic.str())
             : diagnostic.str();
}

static LogicalResult runPasses(ModuleOp module, const Phase &phase) {
  PassManager pm(module.getContext());
  pm.enableVerifier(false); // verifyForm comes after it
  phase.build(pm);
  return pm.run(module);
}

static LogicalResult verifyForm(ModuleOp module, size_t index) {
  if (failed(verify(module)))
    return failure();
  for (size_t i = 0; i <= index; ++i)
    if ((i == index || phases()[i].holdsLater) && failed(phases()[i].verify(module)))
      return failure();
  return success();
}

std::string mgc::phaseOf(ModuleOp module, const std::string &from) {
  auto recorded = module->getAttrOfType<StringAttr>(kPhaseAttr);
  return !from.empty() ? from : recorded ? recorded.str() : phases().front().name.str();
}

Status mgc::verifyUnread(ModuleOp module, const std::string &from, StringRef attribute, StringRef flag) {
  const std::string phase = phaseOf(module, from);
  MGC_ASSIGN(last, indexOf(phase, "--compile-from"));
  for (size_t i = 1; i <= last; ++i)
    if (llvm::is_contained(phases()[i].reads, attribute))
      return errorf(
          "{}: the module is in phase {}, and {} has decided by it already; start from the model, or from "
          "phase {} or earlier",
          flag.str(), phase, phases()[i].name.str(), phases()[i - 1].name.str());
  return Status::ok();
}

Status mgc::runPhases(ModuleOp module, const PhaseOptions &options) {
  auto recorded = module->getAttrOfType<StringAttr>(kPhaseAttr);
  const std::string from = phaseOf(module, options.from);
  MGC_ASSIGN(first, indexOf(from, "--compile-from"));
  if (recorded && recorded != from)
    return errorf(
        "--compile-from {}: the module is in phase {}; leave the flag away, it is needed only for a "
        "module that does not say its phase",
        from, recorded.str());
  size_t last = phases().size() - 1;
  if (!options.to.empty()) {
    MGC_ASSIGN(to, indexOf(options.to, "--compile-to"));
    last = to;
  }
  if (last < first)
    return errorf("--compile-to {}: the module is already in phase {}", phases()[last].name.str(), from);

  std::string messages;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      messages += (messages.empty() ? "" : "\n") + textOf(diagnostic, module.getLoc());
    return success();
  });
  for (size_t i = first; i <= last; ++i) {
    if (i > first && failed(runPasses(module, phases()[i])))
      return errorf("phase {}: {}", phases()[i].name.str(), messages);
    if (failed(verifyForm(module, i)))
      return errorf("the module in phase {} does not verify: {}", phases()[i].name.str(), messages);
    if (!options.dumpDirectory.empty())
      MGC_TRY(dump(module, i, options.dumpDirectory));
  }
  return Status::ok();
}
