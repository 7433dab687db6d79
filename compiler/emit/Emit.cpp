// See Emit.h.
#include "compiler/emit/Emit.h"

#include "compiler/assemble/Assemble.h"
#include "plan/json/PlanJson.h"
#include "plan/prove/ProvePlan.h"
#include "runtime/base/File.h"
#include "runtime/base/FolderLock.h"
#include "runtime/random/Philox.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace mgc {

namespace {

std::string libraryOf(plan::KernelLevel level) {
  const char *suffix = plan::factsOf(level).target == plan::Target::cpu ? "so" : "ptx";
  return fmt::format("kernels/{}.{}", nameOf(level), suffix);
}

// Where the kernels are written until the plan that names them is proven.
std::string newLibrary(const std::filesystem::path &directory, plan::KernelLevel level) {
  return (directory / libraryOf(level)).string() + ".new";
}

std::vector<plan::KernelLevel> levelsOf(plan::Target target) {
  std::vector<plan::KernelLevel> levels;
  for (size_t number = 0; number < plan::kKernelLevels.size(); ++number)
    if (plan::kKernelLevels[number].target == target)
      levels.push_back(plan::KernelLevel(number));
  return levels;
}

std::vector<plan::KernelLevel> allLevels() {
  std::vector<plan::KernelLevel> levels = levelsOf(plan::Target::cpu);
  llvm::append_range(levels, levelsOf(plan::Target::cuda));
  return levels;
}

std::string targetOf(plan::KernelLevel gpu) { return fmt::format("{}:{}", nameOf(plan::Target::cuda), nameOf(gpu)); }

// The level of GPUs that the module is compiled for; nothing: CPUs.
Result<std::optional<plan::KernelLevel>> gpuOf(ModuleOp module) {
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  if (!target || target == targets().front())
    return std::optional<plan::KernelLevel>();
  for (plan::KernelLevel level : levelsOf(plan::Target::cuda))
    if (target == targetOf(level))
      return std::optional(level);
  return errorf("{} = '{}'; possible: {}", kTargetAttr.str(), target.str(), fmt::join(targets(), ", "));
}

class Emitter {
public:
  Emitter(ModuleOp module, AssembledPlan assembled)
      : module_(module), plan_(std::move(assembled.plan)), kernels_(std::move(assembled.kernels)) {}

  Status prepare(const EmitOptions &options) {
    MGC_TRY(options.tune ? options.tune(plan_) : Status::ok());
    return options.complete ? options.complete(plan_) : Status::ok();
  }

  // Compiles the row kernels into the bundle, under newLibrary, and names
  // them in the programs.
  Status compile(const std::filesystem::path &directory, const EmitOptions &options) {
    const rowgen::CompileOptions compileOptions{options.threads, options.kernelText};
    MGC_ASSIGN(gpu, gpuOf(module_));
    if (gpu) {
      plan_.target = plan::Target::cuda;
      const rowgen::PtxFile output{*gpu, newLibrary(directory, *gpu)};
      MGC_ASSIGN(symbols, rowgen::compileKernels(kernels_.graphs, output, compileOptions));
      nameKernels(symbols);
      return addFile(*gpu, output.path);
    }
    std::vector<rowgen::SharedObject> outputs;
    for (const std::string &cpu : options.cpus) {
      MGC_ASSIGN(target, rowgen::CpuTarget::find(cpu));
      outputs.push_back({target, newLibrary(directory, target.level)});
    }
    MGC_ASSIGN(symbols, rowgen::compileKernels(kernels_.graphs, outputs, compileOptions));
    nameKernels(symbols);
    for (const rowgen::SharedObject &output : outputs)
      MGC_TRY(addFile(output.target.level, output.path));
    return Status::ok();
  }

  plan::Plan take() { return std::move(plan_); }

private:
  Status addFile(plan::KernelLevel level, const std::string &path) {
    MGC_ASSIGN(file, MappedFile::open(path));
    plan_.kernels.push_back({level, libraryOf(level), hashName(file.text())});
    return Status::ok();
  }

  void nameKernels(const std::vector<std::string> &symbols) {
    for (const KernelGraphs::Use &use : kernels_.uses) {
      auto &kernel = std::get<plan::RowKernel>(plan_.programs[use.program].instructions[use.instruction].body);
      kernel.symbol = symbols[use.graph];
    }
  }

  ModuleOp module_;
  plan::Plan plan_;
  KernelGraphs kernels_;
};

Status makeFolders(const std::filesystem::path &directory) {
  const std::filesystem::path kernels = directory / "kernels";
  std::error_code error;
  std::filesystem::create_directories(kernels, error);
  return error ? errorf("{}: cannot be made: {}", kernels.string(), error.message()) : Status::ok();
}

// Until the new plan is proven, one that was in the folder stays as it is.
Result<plan::Plan> emitBeside(ModuleOp module, const std::filesystem::path &directory, const EmitOptions &options,
                              Descriptor &lock) {
  MGC_ASSIGN(assembled, assemble(module, options.leastBudget));
  Emitter emitter(module, std::move(assembled));
  MGC_TRY(makeFolders(directory));
  MGC_SET(
      lock,
      lockFolder(directory.string(), "another mgc compile writes into this folder; expected another folder").at("-o"));
  MGC_TRY(emitter.prepare(options)); // may take minutes, and be stopped: before there is anything to remove
  MGC_TRY(emitter.compile(directory, options));
  plan::Plan plan = emitter.take();
  MGC_TRY(plan::provePlan(plan).at("the emitted plan cannot be proved"));
  return plan;
}

// Kernels in a folder without a plan are not mgc's.
Status verifyReplaceableKernels(const std::filesystem::path &directory) {
  std::error_code ignored;
  if (std::filesystem::exists(directory / plan::kPlanFile, ignored))
    return Status::ok();
  for (plan::KernelLevel level : allLevels())
    if (const std::filesystem::path file = directory / libraryOf(level); std::filesystem::exists(file, ignored))
      return errorf("-o: {}: is of no plan in this folder; expected another folder, or --force, which replaces it",
                    file.string());
  return Status::ok();
}

// Kernels of the older plan in the folder that the new one does not have.
void removeUnnamed(const std::vector<plan::KernelFile> &old, const plan::Plan &plan,
                   const std::filesystem::path &directory) {
  for (const plan::KernelFile &kernels : old)
    if (llvm::none_of(plan.kernels, [&](const plan::KernelFile &file) { return file.level == kernels.level; })) {
      std::error_code ignored;
      std::filesystem::remove(directory / libraryOf(kernels.level), ignored);
    }
}

// Kernel files of the plan in the folder; none where no plan can be read.
std::vector<plan::KernelFile> kernelsIn(const std::filesystem::path &directory) {
  const Result<plan::Plan> plan = plan::readPlan(directory);
  return plan.isOk() ? plan->kernels : std::vector<plan::KernelFile>();
}

} // namespace

std::vector<std::string> targets() {
  std::vector<std::string> targets = {std::string(nameOf(plan::Target::cpu))};
  for (plan::KernelLevel level : levelsOf(plan::Target::cuda))
    targets.push_back(targetOf(level));
  return targets;
}

Result<plan::Plan> emitBundle(ModuleOp module, const std::filesystem::path &directory, const EmitOptions &options) {
  if (!options.force) {
    MGC_TRY(plan::verifyReplaceablePlan(directory).at("-o"));
    MGC_TRY(verifyReplaceableKernels(directory));
  }
  const std::vector<plan::KernelFile> old = kernelsIn(directory);
  Descriptor lock; // as long as it is not held, new files are another's
  auto removeNew = llvm::scope_exit([&] {
    if (!lock.isOpen())
      return;
    std::error_code ignored;
    for (plan::KernelLevel level : allLevels())
      std::filesystem::remove(newLibrary(directory, level), ignored);
  });
  MGC_ASSIGN(plan, emitBeside(module, directory, options, lock));
  // All of the new bundle is on disk before any of the old one goes: a disk that is full leaves the old bundle.
  MGC_ASSIGN(file, plan::stagePlan(plan, directory));
  for (const plan::KernelFile &kernels : plan.kernels) {
    std::error_code error;
    std::filesystem::rename(newLibrary(directory, kernels.level), directory / kernels.path, error);
    if (error)
      return errorf("{}: cannot be written: {}", (directory / kernels.path).string(), error.message());
  }
  MGC_TRY(file.commit());
  removeUnnamed(old, plan, directory);
  MGC_ASSIGN(read, plan::readPlan(directory));
  if (!(read == plan))
    return Status::error("the plan does not read back equal to what was written");
  return plan;
}

void removeBundle(const std::filesystem::path &directory) {
  const Result<plan::Plan> plan = plan::readPlan(directory);
  if (!plan.isOk())
    return;
  std::error_code ignored;
  for (const std::string &file : plan::filesOf(directory.string(), *plan))
    std::filesystem::remove(file, ignored);
  std::filesystem::remove(directory / "kernels", ignored);
  std::filesystem::remove(directory, ignored);
}

} // namespace mgc
