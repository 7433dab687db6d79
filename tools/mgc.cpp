// mgc: the compiler's command line. Parses flags and calls libraries.
#include "compiler/Phases.h"
#include "compiler/assemble/TaskTimes.h"
#include "compiler/emit/Emit.h"
#include "compiler/program/Passes.h"
#include "compiler/stage/TrainedStages.h"
#include "compiler/tune/ProductCache.h"
#include "compiler/tune/TuneProducts.h"
#include "frontend/Load.h"
#include "frontend/import/Import.h"
#include "frontend/import/Origin.h"
#include "frontend/import/RuleTable.h"
#include "frontend/layout/Options.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "plan/BatchSizes.h"
#include "plan/cost/Fit.h"
#include "plan/cost/Machine.h"
#include "plan/json/PlanJson.h"
#include "planner/Neighbours.h"
#include "runtime/base/File.h"
#include "runtime/kernels/CpuGemm.h"
#include "tools/auto/ChooseLayout.h"
#include "tools/commands/Flags.h"
#include "tools/commands/LayoutFiles.h"
#include "tools/commands/OptionsPage.h"
#include "tools/commands/VocabularyPage.h"
#include "tools/compare/Comparison.h"
#include "tools/explain/Explain.h"
#include "tools/flags/Usage.h"
#include "tools/page/Page.h"
#include "tools/process/CompilerProcess.h"
#include "tools/supported/SupportedByCompiler.h"
#include "tools/version/Version.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

using namespace mgc;
using namespace mgc::tools;

namespace {

PhaseNames phaseNames() {
  PhaseNames names;
  for (const Phase &phase : phases())
    names.modules.push_back(phase.name.str());
  for (const TextPhase &phase : textPhases())
    names.texts.push_back(phase.name.str());
  return names;
}

constexpr int64_t kMaxProgramBytes = int64_t(1) << 31;

// MLIR's parser calls itself for each level.
Status verifyDepth(std::string_view text) {
  constexpr int64_t most = 256;
  int64_t depth = 0;
  for (char c : text) {
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (depth > most)
      return errorf("brackets are nested deeper than {}, which no program here needs", most);
  }
  return Status::ok();
}

Result<mlir::OwningOpRef<mlir::ModuleOp>> parseModule(mlir::MLIRContext &context, const std::string &path) {
  std::string messages;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    llvm::raw_string_ostream stream(messages);
    stream << (messages.empty() ? "" : "\n") << diagnostic.getLocation() << ": " << diagnostic;
    return mlir::success();
  });
  MGC_ASSIGN(text, readFile(path, kMaxProgramBytes));
  MGC_TRY(verifyDepth(text).at(path));
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context, path);
  if (!module)
    return errorf("{}: {}", path, messages);
  return module;
}

// A program that was edited computes what its config.json does not say; then it has none.
Result<mlir::OwningOpRef<mlir::ModuleOp>> parseProgram(mlir::MLIRContext &context, const CompileFlags &flags) {
  MGC_ASSIGN(module, parseModule(context, flags.model));
  const auto lower = [](mlir::ModuleOp fresh, const std::string &phase) {
    return runPhases(fresh, {.from = {}, .to = phase, .dumpDirectory = {}});
  };
  if (!frontend::isOfItsConfig(*module, phaseOf(*module, flags.from), lower))
    frontend::forgetConfig(*module);
  return module;
}

// Sizes of the batches of --rampup-batch-size below the global batch.
Result<std::vector<int64_t>> smallerBatches(const CompileFlags &flags, int64_t globalBatchSize) {
  std::vector<int64_t> smaller;
  if (flags.rampup.empty())
    return smaller;
  const plan::BatchRampup rampup = {flags.rampup[0], flags.rampup[1], flags.rampup[2]};
  MGC_TRY(plan::BatchSizes::growing(rampup, globalBatchSize).status());
  for (int64_t size = rampup.start; size < globalBatchSize; size += rampup.increment)
    smaller.push_back(size);
  return smaller;
}

// A model description, and all that its layout may be of.
struct Described {
  frontend::ModelFile file;
  frontend::Supported supported;
};

Result<Described> readDescription(const CompileFlags &flags) {
  MGC_ASSIGN(file, frontend::loadModel(flags.model));
  MGC_TRY(frontend::verifyModelFlags(file.model, flags.facts));
  Described described{std::move(file), supportedByCompiler()};
  MGC_TRY(addScheduleFile(flags.layout.schedule.value_or(""), described.supported));
  MGC_TRY(addMachineFile(flags.layout.machine.value_or(""), described.supported));
  return described;
}

Result<frontend::Layout> layoutOf(const Described &described, const frontend::LayoutOptions &options) {
  return frontend::resolveLayout(described.file.model, options, described.file.defaults, described.supported);
}

// Refuses flags that are for CPUs alone where the plan is for another target.
Status verifyTarget(mlir::ModuleOp module, const CompileFlags &flags) {
  auto target = module->getAttrOfType<mlir::StringAttr>(kTargetAttr);
  if (!target || target == targets().front())
    return Status::ok();
  if (!flags.cpu.empty())
    return errorf("--target-cpu {}: chooses kernels of plans for {}; this one is for {}", flags.cpu, targets().front(),
                  target.str());
  if (!flags.tuneThreads.empty())
    return errorf("--tune-products: measures products of plans for {}; this one is for {}, whose library chooses when "
                  "the plan is loaded, by measuring with mgrun --tune-products",
                  targets().front(), target.str());
  return Status::ok();
}

// Adds to a module that was read or imported what flags say.
Status prepare(mlir::ModuleOp module, const CompileFlags &flags) {
  MGC_TRY(verifyTarget(module, flags));
  if (!flags.rules.empty()) {
    MGC_TRY(verifyUnread(module, flags.from, kPlacementAttr, "--rules"));
    MGC_TRY(frontend::setRules(module, flags.rules));
  }
  if (!flags.fusion) {
    MGC_TRY(verifyUnread(module, flags.from, kNoFusionAttr, "--no-fusion"));
    module->setAttr(kNoFusionAttr, mlir::UnitAttr::get(module.getContext()));
  }
  return Status::ok();
}

Result<mlir::OwningOpRef<mlir::ModuleOp>> moduleOf(mlir::MLIRContext &context, const Described &described,
                                                   const frontend::Layout &layout, const CompileFlags &flags) {
  mlir::OwningOpRef<mlir::ModuleOp> module = frontend::importModel(context, described.file.model, layout);
  if (!module)
    return errorf("{}: the imported program does not verify", flags.model);
  if (layout.target.name != targets().front())
    (*module)->setAttr(kTargetAttr, mlir::StringAttr::get(&context, layout.target.name));
  MGC_TRY(prepare(*module, flags));
  return module;
}

// Other options of the same model and flags.
planner::MakeModule maker(const Described &described, const CompileFlags &flags) {
  return [&](mlir::MLIRContext &context,
             const frontend::LayoutOptions &options) -> Result<mlir::OwningOpRef<mlir::ModuleOp>> {
    MGC_ASSIGN(layout, layoutOf(described, options));
    return moduleOf(context, described, layout, flags);
  };
}

bool isProgram(const CompileFlags &flags) { return llvm::StringRef(flags.model).ends_with(".mlir"); }

planner::Asked askedOf(const Described &described, const CompileFlags &flags) {
  return {flags.layout, frontend::either(flags.layout, described.file.defaults)};
}

// Puts the fastest in the place of options that are left open.
Status closeOptions(CompileFlags &flags) {
  if (isProgram(flags))
    return Status::ok();
  MGC_ASSIGN(described, readDescription(flags));
  const planner::Asked asked = askedOf(described, flags);
  if (!planner::isOpen(asked) || !asked.all.memory)
    return Status::ok(); // without --memory it is refused with the layout
  if (asked.all.offload == frontend::kOffloadAuto && (asked.all.optimizerOffload || asked.all.offloadFraction))
    return errorf("--offload auto with --optimizer-cpu-offload or --optimizer-offload-fraction: it chooses them\n  "
                  "possible: --offload auto without them, or they without it");
  MGC_ASSIGN(layout, layoutOf(described, planner::settledOf(asked)));
  const std::vector<planner::Trial> trials = planner::tryAll(asked, layout, maker(described, flags));
  say(stderr, "auto, each with the policies that fit and take least time as predicted:\n{}\n",
      planner::describe(asked, trials));
  MGC_ASSIGN(chosen, planner::fastest(asked, trials).at("--memory " + layout.memory));
  flags.layout = chosen.options;
  return Status::ok();
}

// Puts the fastest layout in the place of all options that are not given.
Status searchOptions(CompileFlags &flags) {
  if (isProgram(flags))
    return errorf("{}: {}: a program has its layout in it; expected a model description", searchText(flags),
                  flags.model);
  MGC_ASSIGN(described, readDescription(flags));
  const planner::MakeModule make = maker(described, flags);
  MGC_SET(flags.layout, chooseLayout(flags, {described.file, described.supported, make}));
  flags.automatic.isOn = false; // plans of smaller batches have the same layout
  return Status::ok();
}

constexpr size_t kProposals = 3;

std::string noneFits(const planner::Near &near) {
  return near.left > 0
             ? fmt::format("none of {} near layouts that were tried fits; {} others were not tried", near.tried,
                           near.left)
             : fmt::format(
                   "no layout fits that differs in at most {} of --tp, --pp, --cp, --ep, --zero, --mbs, --grad-dtype, "
                   "--moe-rows-factor, recomputation and offloading",
                   planner::kMostChanges);
}

// The one change with which a step may end.
void sayWhatMayEnd(const planner::Asked &asked, const planner::Near &near) {
  if (std::ranges::any_of(near.fitting, [&](const planner::Trial &trial) {
        return trial.options.rowsFactor.value_or(0) > asked.all.rowsFactor.value_or(0);
      }))
    say(stderr, "mgc: with {} a step ends in which a rank's experts get more rows (docs/experts.md)\n",
        frontend::optionOf(&frontend::LayoutOptions::rowsFactor).flag);
}

// Adds to the refusal of a layout that does not fit near ones that do.
Status withNeighbours(const CompileFlags &flags, const Status &refusal) {
  if (isProgram(flags))
    return refusal;
  MGC_ASSIGN(described, readDescription(flags));
  MGC_ASSIGN(layout, layoutOf(described, flags.layout));
  say(stderr, "mgc: it does not fit into --memory {}; trying near layouts\n", layout.memory);
  const planner::Asked asked = askedOf(described, flags);
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max(); // a trial has a plan if it fits into --memory
  planner::Near near = planner::tryNeighbours(asked, layout, nullptr, {kAny, kAny}, 1, maker(described, flags));
  near.fitting.resize(std::min(kProposals, near.fitting.size()));
  sayWhatMayEnd(asked, near);
  return errorf("{}\n{}", refusal.message(),
                near.fitting.empty()
                    ? "  " + noneFits(near)
                    : "  these fit, the fastest first, as predicted:\n" + planner::describe(asked, near.fitting));
}

// The memory that the machine has for a rank, and near layouts that fit where that is too little. A machine of CPUs is known if it
// is named.
Status addFit(const CompileFlags &flags, mlir::ModuleOp module, plan::Plan &plan) {
  if (targetOf(module) == plan::Target::cpu && trainingOf(module).machine.empty())
    return Status::ok();
  MGC_ASSIGN(machine, machineNamedIn(module));
  const cost::Fit fit = cost::fitOf(plan, machine);
  plan.fit = {machine.name, fit.device.available, fit.host.available, {}};
  if (fit.fits() || isProgram(flags) || !flags.triesNeighbours)
    return Status::ok();
  say(stderr, "mgc: it {}; trying near layouts\n", cost::describe(fit));
  MGC_ASSIGN(described, readDescription(flags));
  MGC_ASSIGN(layout, layoutOf(described, flags.layout));
  const planner::Asked asked = askedOf(described, flags);
  planner::Near near = planner::tryNeighbours(asked, layout, &plan, {fit.device.available, fit.host.available},
                                              kProposals, maker(described, flags));
  if (near.fitting.empty())
    say(stderr, "mgc: {}\n", noneFits(near));
  near.fitting.resize(std::min(kProposals, near.fitting.size()));
  sayWhatMayEnd(asked, near);
  for (const planner::Trial &trial : near.fitting)
    plan.fit.changes.push_back({planner::differing(asked, trial.options), trial.ranks, trial.bytes, trial.seconds});
  return Status::ok();
}

void sayFit(const plan::Plan &plan) {
  if (const std::optional<cost::Fit> fit = cost::fitOf(plan))
    say(stderr, "{}\n{}", cost::describe(*fit), cost::changesText(plan, *fit));
}

struct Imported {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<int64_t> smaller; // batches whose plans stand next to its own
};

// The logical module of a model description or of a .mlir file, and the choices that were made, printed.
Result<Imported> importAny(mlir::MLIRContext &context, const CompileFlags &flags) {
  if (isProgram(flags)) {
    if (frontend::isGiven(flags.layout) || !flags.facts.empty())
      return errorf("{}: a program has its layout in it, and its model; flags of the layout are for model descriptions",
                    flags.model);
    if (!flags.rampup.empty())
      return errorf("--rampup-batch-size: {}: a program has one batch; expected a model description", flags.model);
    MGC_ASSIGN(parsed, parseProgram(context, flags));
    MGC_TRY(prepare(*parsed, flags));
    return Imported{std::move(parsed), {}};
  }
  MGC_ASSIGN(described, readDescription(flags));
  MGC_ASSIGN(layout, layoutOf(described, flags.layout));
  MGC_ASSIGN(smaller, smallerBatches(flags, layout.globalBatchSize));
  for (const std::string &note : described.file.model.notes)
    say(stderr, "mgc: {}\n", note);
  say(stderr, "{}", frontend::describe(layout));
  for (const std::string &warning : layout.warnings)
    say(stderr, "mgc: {}\n", warning);
  MGC_ASSIGN(module, moduleOf(context, described, layout, flags));
  return Imported{std::move(module), std::move(smaller)};
}

void sayTuning(const tune::TuneReport &report) {
  for (const std::string &note : report.notes)
    say(stderr, "mgc: {}\n", note);
  int64_t measured = 0;
  bool allByRule = true;
  for (const tune::TunedProduct &product : report.products) {
    measured += !product.isRemembered;
    allByRule &= product.isByRule;
    if (!product.isByRule)
      say(stderr, "  {}: {}\n", product.gemm.sizes(), nameOf(product.gemm.path));
  }
  say(stderr, "products for {} thread{}: {} measured, {} remembered; {}\n", report.threads,
      report.threads == 1 ? "" : "s", measured, report.products.size() - measured,
      allByRule ? "all by rule" : "those above other than by rule");
}

// plan.json or a library of the bundle that -o names.
bool isOfPlan(const std::string &path, const std::string &folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path inside = fs::weakly_canonical(path, ignored).lexically_relative(fs::weakly_canonical(folder, ignored));
  return !inside.empty() && (inside == "plan.json" || *inside.begin() == "kernels");
}

Status tuneFor(const CompileFlags &flags, plan::Plan &plan) {
  const std::string cache = flags.tuneCache.empty() ? tune::defaultCachePath() : flags.tuneCache;
  if (isOfPlan(cache, flags.output))
    return errorf("--tune-cache {}: is a file of the plan, expected another", cache);
  MGC_ASSIGN(report, tune::tuneProducts(plan, {std::atoi(flags.tuneThreads.c_str()), cache}).at("--tune-products"));
  sayTuning(report);
  return Status::ok();
}

Status verifyEvaluable(mlir::ModuleOp module, const CompileFlags &flags) {
  if (const std::string phase = phaseOf(module, flags.from); phase != phases().front().name)
    return errorf("--evaluation: {}: is in phase {}, where its gradients are built already; expected a model or "
                  "a program in phase {}",
                  flags.model, phase, phases().front().name.str());
  return Status::ok();
}

// Brings the program that is trained, from phase import, to phase fuse as it is evaluated: it reads the values of the trained one, which
// is there already.
Status evaluate(mlir::ModuleOp module, mlir::ModuleOp trained, const CompileFlags &flags) {
  module->setAttr(kTrainedAttr, describeStages(trained));
  mlir::PassManager pm(module.getContext());
  pm.addPass(createEvaluatePass());
  if (mlir::failed(pm.run(module)))
    return errorf("--evaluation: {}: the program without dropout does not verify", flags.model);
  return runPhases(module, {}).at("--evaluation");
}

// Beside the plan that is trained; one that was there is of another.
Status emitEvaluation(mlir::ModuleOp evaluation, const CompileFlags &flags, const EmitOptions &options) {
  const std::filesystem::path folder = std::filesystem::path(flags.output) / plan::kEvaluationFolder;
  if (!evaluation) {
    removeBundle(folder);
    return Status::ok();
  }
  EmitOptions ofEvaluation = options;
  ofEvaluation.complete = nullptr;
  MGC_ASSIGN(plan, emitBundle(evaluation, folder, ofEvaluation));
  say(stderr, "evaluation, of memory of its own:\n");
  sayMemory(plan);
  say(stderr, "plan in {}\n", folder.string());
  return Status::ok();
}

Status compile(const CompileFlags &flags);

// Folders of smaller batches that were there belong to another plan.
void removeSmallerBatches(const std::string &output) {
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator(output, ignored))
    if (entry.path().filename().string().starts_with(plan::batchFolder(""))) {
      removeBundle(entry.path() / plan::kEvaluationFolder);
      removeBundle(entry.path());
    }
}

Status compileSmallerBatches(const CompileFlags &flags, const std::vector<int64_t> &sizes) {
  for (const int64_t size : sizes) {
    say(stderr, "\n--rampup-batch-size: batches of {}\n", size);
    CompileFlags smaller = flags;
    smaller.layout.gbs = size;
    smaller.output = (std::filesystem::path(flags.output) / plan::batchFolder(std::to_string(size))).string();
    smaller.evaluation = false, smaller.dump.clear(), smaller.rampup.clear();
    smaller.triesNeighbours = false;
    MGC_TRY(compile(smaller).at(fmt::format("--rampup-batch-size: batches of {}", size)));
  }
  return Status::ok();
}

// Runs that are paired overlap each other, and units are gathered and summed up in line.
void sayWhatPairsLeaveOut(mlir::ModuleOp module, const plan::Plan &plan) {
  const TrainingSettings &training = trainingOf(module);
  std::vector<std::string> idle;
  if (training.overlapsParamGather && plan.zero == 3)
    idle.push_back(frontend::optionOf(&frontend::LayoutOptions::overlapParamGather).flag);
  if (training.overlapsGradReduce)
    idle.push_back(frontend::optionOf(&frontend::LayoutOptions::overlapGradReduce).flag);
  if (!idle.empty() && std::ranges::any_of(plan.stages, [](const plan::StagePlan &stage) {
        return std::ranges::any_of(stage.schedule, &plan::ScheduleStep::paired);
      }))
    say(stderr, "mgc: {} {} nothing here: --schedule {} pairs runs, which overlap each other\n",
        fmt::join(idle, " and "), idle.size() == 1 ? "does" : "do", plan.schedule);
}

// All that is asked for may be less than half a part of each bucket, and parameters of a program may all be frozen.
void sayIdleOffload(mlir::ModuleOp module, const plan::Plan &plan) {
  const auto hasRegion = [&](std::string_view kind) {
    return std::ranges::any_of(plan.stages, [&](const plan::StagePlan &stage) {
      return std::ranges::find(stage.regions, kind, &plan::Region::kind) != stage.regions.end();
    });
  };
  if (trainingOf(module).activationOffload > 0 && !hasRegion(plan::kHostActivations))
    say(stderr,
        "mgc: {} does nothing here: no chunk has two layers that save something of {}, and the last stays on the "
        "device\n  possible: other modules, more layers in a chunk (--pp, --vpp)\n",
        frontend::optionOf(&frontend::LayoutOptions::activationOffload).flag,
        frontend::optionOf(&frontend::LayoutOptions::offloadModules).flag);
  const double fraction = trainingOf(module).optimizerOffload;
  if (fraction == 0 || hasRegion(plan::kHostOptimizer))
    return;
  const bool hasStates = std::ranges::any_of(plan.stages, [](const plan::StagePlan &stage) {
    return std::ranges::any_of(stage.buckets, [](const plan::Bucket &bucket) {
      return std::ranges::count(bucket.states, plan::StateRole::optimizer, &plan::State::role) > 0;
    });
  });
  say(stderr, "mgc: {} does nothing here: {}\n", frontend::optionOf(&frontend::LayoutOptions::optimizerOffload).flag,
      hasStates ? fmt::format("{} of the optimizer's state is less than a part of any bucket", fraction)
                : "no parameter is trained, so there is no optimizer's state");
}

Status compile(const CompileFlags &asked) {
  CompileFlags flags = asked;
  std::error_code ignored;
  if (std::filesystem::equivalent(flags.model, flags.output, ignored) &&
      !std::filesystem::is_directory(flags.output, ignored))
    return errorf("-o {}: is the model itself, expected another file", flags.output);
  if (isSearch(flags)) {
    MGC_TRY(searchOptions(flags));
    if (flags.output.empty() && flags.to.empty())
      return Status::ok();
  }
  MGC_TRY(closeOptions(flags));
  mlir::MLIRContext context;
  context.loadDialect<MgDialect, mlir::func::FuncDialect>();
  MGC_ASSIGN(imported, importAny(context, flags));
  mlir::OwningOpRef<mlir::ModuleOp> module = std::move(imported.module);
  mlir::OwningOpRef<mlir::ModuleOp> evaluation;
  if (flags.evaluation) {
    MGC_TRY(verifyEvaluable(*module, flags));
    evaluation = module->clone();
  }
  MGC_TRY(runPhases(*module, {flags.from, flags.to, flags.dump}));
  if (evaluation && flags.to.empty())
    MGC_TRY(evaluate(*evaluation, *module, flags));
  if (!frontend::hasConfig(*module))
    say(stderr,
        "mgc: {}: is not the program of a config.json in its mg.model: it was edited or made otherwise, and "
        "weights that it trains are saved without a config.json\n",
        flags.model);
  if (!flags.to.empty()) {
    if (!flags.force)
      MGC_TRY(verifyReplaceableText(flags.output).at("-o"));
    MGC_ASSIGN(text, printPhase(*module, flags.to));
    return writeText(text, flags.output);
  }
  EmitOptions options;
  options.force = flags.force;
  if (!flags.cpu.empty())
    options.cpus = {flags.cpu};
  if (!flags.tuneThreads.empty())
    options.tune = [&](plan::Plan &plan) { return tuneFor(flags, plan); };
  options.complete = [&](plan::Plan &plan) { return addFit(flags, *module, plan); };
  std::optional<int64_t> leastBudget;
  options.leastBudget = &leastBudget;
  auto emitted = emitBundle(*module, flags.output, options);
  if (!emitted.isOk())
    return leastBudget ? withNeighbours(flags, emitted.status()) : emitted.status();
  const plan::Plan plan = emitted.take();
  sayWhatPairsLeaveOut(*module, plan);
  sayIdleOffload(*module, plan);
  sayMemory(plan);
  sayFit(plan);
  say(stderr, "plan in {}\n", flags.output);
  MGC_TRY(emitEvaluation(evaluation ? *evaluation : mlir::ModuleOp(), flags, options));
  removeSmallerBatches(flags.output);
  return compileSmallerBatches(flags, imported.smaller);
}

Status compare(const CompareFlags &flags) {
  std::vector<RunLog> runs;
  for (const std::string &log : flags.logs) {
    if (isSameFile(log, flags.html))
      return errorf("--html {}: is one of the logs, expected another", flags.html);
    MGC_ASSIGN(run, readRunLog(log));
    runs.push_back(std::move(run));
  }
  const Comparison comparison = compareRuns(std::move(runs));
  if (!flags.html.empty()) {
    MGC_TRY(verifyCreatable(pageKind(), flags.html, flags.force));
    return writeFileAtomically(flags.html, comparisonPage(comparisonData(comparison)));
  }
  say(stdout, "{}", textOf(comparison));
  return checkOutput();
}

Status printOptions(const Flags &flags) {
  const frontend::Supported supported = supportedByCompiler();
  say(stdout, "{}",
      flags.names        ? layoutFlagNames()
      : flags.vocabulary ? vocabularyPage()
      : flags.schema     ? optionsSchema(supported)
                         : optionsPage(supported));
  return checkOutput();
}

// mgc translate is a program of its own, for it knows the options of mgrun and so links the runtime. Comes back where that does not
// start.
int startTranslate(char **argv) {
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::string program = (self.parent_path() / "mgc-translate").string();
  ::execv(program.c_str(), argv + 1);
  say(stderr, "mgc translate: {}: does not start: {}; expected that program beside mgc\n", program,
      std::strerror(errno));
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 1 && argv[1] == kTranslate)
    return startTranslate(argv);
  prepareCompiler("mgc");
  Parsed parsed = parseFlags(
      argc, argv,
      versionText("mgc", {"LLVM and MLIR " LLVM_VERSION_STRING, gemmLibrary(), jsonLibrary(), commandLineLibrary()}),
      supportedByCompiler(), phaseNames());
  if (parsed.exitCode >= 0)
    return parsed.exitCode;
  const CompileFlags &flags = parsed.flags.compile;
  Status status = parsed.flags.command == Flags::Command::compile
                      ? withConfig(compile(flags), flags.config, flags.ofConfig)
                  : parsed.flags.command == Flags::Command::explain ? explain(parsed.flags.explain)
                  : parsed.flags.command == Flags::Command::compare ? compare(parsed.flags.compare)
                                                                    : printOptions(parsed.flags);
  if (status.isOk())
    return 0;
  say(stderr, "mgc: {}\n", status.message());
  return 1;
}
