#include "compiler/Phases.h"

#include "compiler/assemble/PhaseText.h"
#include "compiler/fuse/VerifyFuseForm.h"
#include "compiler/grad/VerifyGradForm.h"
#include "compiler/local/VerifyLocalForm.h"
#include "compiler/program/Passes.h"
#include "compiler/program/VerifyImportForm.h"
#include "compiler/shard/VerifyShardForm.h"
#include "compiler/stage/VerifyStageForm.h"
#include "compiler/step/VerifyStepForm.h"
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
       [](OpPassManager &pm) {
         pm.addPass(createLocalPass());
         pm.addPass(createRingPass());
         pm.addPass(createOrderRowsPass());
       },
       verifyLocalForm},
      {"stage", "chunks, buckets and the step's functions per pipeline stage",
       [](OpPassManager &pm) { pm.addPass(createStagePass()); }, verifyStageForm, /*holdsLater=*/true, /*reads=*/{},
       /*isOfStages=*/true},
      {"step", "the step's functions: local shapes, explicit collectives",
       [](OpPassManager &pm) { pm.addPass(createLocalPass()); }, verifyStepIsLocal, /*holdsLater=*/true, /*reads=*/{},
       /*isOfStages=*/true},
      {"tile", "the loss, a part of the tokens at a time", [](OpPassManager &pm) { pm.addPass(createTilePass()); },
       [](ModuleOp) { return success(); }}, // mg.tile's own verifier proves all that there is
      {"fuse", "library calls, row kernels, moves and collectives",
       [](OpPassManager &pm) {
         pm.addPass(createFuseEpiloguesPass());
         pm.addPass(createFusePass());
       },
       verifyFuseForm, /*holdsLater=*/true,
       /*reads=*/{kNoFusionAttr}},
  };
  return table;
}

ArrayRef<TextPhase> mgc::textPhases() {
  static const TextPhase table[] = {{"schedule", "ordered steps per stage", scheduleText},
                                    {"memory", "an offset for every buffer", memoryText}};
  return table;
}

const TextPhase *mgc::textPhaseNamed(StringRef name) {
  const auto *found = llvm::find_if(textPhases(), [&](const TextPhase &phase) { return phase.name == name; });
  return found == textPhases().end() ? nullptr : found;
}

template <typename Table> static std::string namesOf(Table table) {
  return fmt::format("{}", fmt::join(llvm::map_range(table, [](const auto &phase) { return phase.name.str(); }), ", "));
}

// Index of the phase that the module is in.
static Result<size_t> phaseToStartFrom(ModuleOp module, const std::string &from) {
  const std::string name = phaseOf(module, from);
  for (auto [i, phase] : llvm::enumerate(phases()))
    if (phase.name == name)
      return i;
  return errorf("{} {}: {}\n  phases to start from: {}", from.empty() ? "mg.phase =" : "--compile-from", name,
                textPhaseNamed(name) ? "nothing reads the text of this phase" : "there is no such phase",
                namesOf(phases()));
}

// The last phase up to the named one that yields a module.
static Result<size_t> phaseToStopAt(StringRef name) {
  for (auto [i, phase] : llvm::enumerate(phases()))
    if (phase.name == name)
      return i;
  if (name.empty() || textPhaseNamed(name))
    return phases().size() - 1;
  return errorf("--compile-to {}: there is no such phase\n  phases: {}, {}", name.str(), namesOf(phases()),
                namesOf(textPhases()));
}

Status mgc::verifyReplaceableText(const std::string &path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored))
    return Status::ok();
  constexpr size_t kBegin = 6; // as long as "module"
  MGC_ASSIGN(file, FileReader::open(path));
  std::string begin(std::min<size_t>(kBegin, file.size()), '\0');
  MGC_TRY(file.read(0, std::as_writable_bytes(std::span(begin))));
  const bool isOurs = begin.empty() || begin == "module" || llvm::is_contained({'#', '!', '/'}, begin.front());
  return isOurs ? Status::ok()
                : errorf("{}: holds something else than a module or a phase's text; expected a new name, or "
                         "--force, which replaces it",
                         path);
}

// A device or pipe is written to.
Status mgc::writeText(const std::string &text, const std::string &path) {
  std::error_code error;
  if (!path.empty() && (!std::filesystem::exists(path, error) || std::filesystem::is_regular_file(path, error)))
    return writeFileAtomically(path, text);
  llvm::raw_fd_ostream file(path.empty() ? "-" : path, error);
  if (!error) {
    file << text;
    file.flush();
    error = file.error();
    file.clear_error(); // else the stream ends the process
  }
  return error ? errorf("{}: cannot be written: {}", path.empty() ? "standard output" : path, error.message())
               : Status::ok();
}

static std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

Result<std::string> mgc::printPhase(ModuleOp module, StringRef phase) {
  const TextPhase *text = textPhaseNamed(phase);
  if (!text)
    return textOf(module);
  MGC_ASSIGN(decisions, decide(module));
  return text->print(decisions);
}

static Status dump(const std::string &text, const std::string &name, const std::filesystem::path &directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  return writeText(text, (directory / name).string());
}

// The text phases up to `to`, all where it is empty, and none where it is a phase before them.
static Status dumpTexts(ModuleOp module, StringRef to, const std::filesystem::path &directory) {
  if (!to.empty() && !textPhaseNamed(to))
    return Status::ok();
  MGC_ASSIGN(decisions, decide(module));
  for (auto [i, phase] : llvm::enumerate(textPhases())) {
    MGC_TRY(
        dump(phase.print(decisions), fmt::format("{:02}-{}.txt", phases().size() + i, phase.name.str()), directory));
    if (phase.name == to)
      break;
  }
  return Status::ok();
}

// A diagnostic as text: with its line, if it came from a file and is not about the whole module.
static std::string textOf(Diagnostic &diagnostic, Location module) {
  auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
  return place && diagnostic.getLocation() != module ? fmt::format("line {}: {}", place.getLine(), diagnostic.str())
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
  MGC_ASSIGN(last, phaseToStartFrom(module, from));
  for (size_t i = 1; i <= last; ++i)
    if (llvm::is_contained(phases()[i].reads, attribute))
      return errorf("{}: the module is in phase {}, and {} has decided by it already; start from the model, or from "
                    "phase {} or earlier",
                    flag.str(), phases()[last].name.str(), phases()[i].name.str(), phases()[i - 1].name.str());
  return Status::ok();
}

Status mgc::runPhases(ModuleOp module, const PhaseOptions &options) {
  auto recorded = module->getAttrOfType<StringAttr>(kPhaseAttr);
  MGC_ASSIGN(first, phaseToStartFrom(module, options.from));
  const std::string from = phases()[first].name.str();
  if (recorded && recorded != from)
    return errorf("--compile-from {}: the module is in phase {}; leave the flag away, it is needed only for a "
                  "module that does not say its phase",
                  from, recorded.str());
  MGC_ASSIGN(last, phaseToStopAt(options.to));
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
      MGC_TRY(dump(textOf(module), fmt::format("{:02}-{}.mlir", i, phases()[i].name.str()), options.dumpDirectory));
  }
  return options.dumpDirectory.empty() ? Status::ok() : dumpTexts(module, options.to, options.dumpDirectory);
}

Status mgc::runPhasesOfBlocks(ModuleOp module, StringRef to) {
  MGC_ASSIGN(from, phaseToStartFrom(module, ""));
  MGC_ASSIGN(last, phaseToStopAt(to));
  std::string messages;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    messages += textOf(diagnostic, module.getLoc());
    return success();
  });
  for (const Phase &phase : phases().slice(from + 1, last - from))
    if (phase.isOfStages)
      module->setAttr(kPhaseAttr, StringAttr::get(module.getContext(), phase.name));
    else if (failed(runPasses(module, phase)))
      return errorf("phase {}: {}", phase.name.str(), messages);
  return Status::ok();
}
