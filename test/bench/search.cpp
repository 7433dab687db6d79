// Layouts estimated from their blocks (planner/search) beside the same layouts compiled and predicted.
//   search_bench FLAGS..            flags of `mgc compile`, its model first
//   search_bench N FLAGS..          searches layouts of N devices, the best 10, with --auto --top K the best K
#include "planner/search/Search.h"
#include "compiler/Phases.h"
#include "compiler/assemble/TaskTimes.h"
#include "dialects/mg/training/MemorySize.h"
#include "frontend/Load.h"
#include "frontend/import/Import.h"
#include "runtime/base/NumberText.h"
#include "tools/commands/Flags.h"
#include "tools/commands/LayoutFiles.h"
#include "tools/supported/SupportedByCompiler.h"

#include <chrono>
#include <iostream>

using namespace mgc;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Status searchAll(const tools::CompileFlags &flags, const frontend::ModelFile &file,
                 const frontend::Supported &supported, const planner::MakeModule &make, int64_t devices) {
  frontend::LayoutOptions given = frontend::either(flags.layout, file.defaults);
  MGC_ASSIGN(machine, cost::findMachine(given.machine.value_or("h100")));
  given.memory = given.memory.value_or(std::to_string(int64_t(machine.memory.bytes)));
  MGC_ASSIGN(size, parseMemorySize(*given.memory));
  const frontend::SearchSpace space{file.model, supported, devices, given.gbs.value_or(1), given.seq.value_or(1024)};
  const planner::SearchRequest request{space,
                                       given,
                                       machine,
                                       int64_t(75) << 30,
                                       int64_t(1) << 50,
                                       flags.automatic.isOn ? size_t(flags.automatic.top) : 10,
                                       make,
                                       [&](const frontend::LayoutOptions &options) {
                                         return frontend::resolveLayout(file.model, options, file.defaults, supported);
                                       }};
  const double start = now();
  const planner::FoundLayouts found = planner::search(request);
  const planner::SearchCounts &n = found.counts;
  std::cout << fmt::format(
      "{:.2f} s: {} enumerated, {} refused, {} too large, {} too slow, {} estimated and {} of other cuts ({} fitted, "
      "{} unfit), {} shapes, {} "
      "compiled\n",
      now() - start, n.enumerated, n.refused, n.tooLarge, n.tooSlow, n.estimated, n.cuts, n.fitted, n.unfit, n.shapes,
      n.compiled);
  for (const planner::Answer &answer : found.answers)
    std::cout << fmt::format("{:.4f} s {} {}\n", answer.estimate.seconds, bytesText(double(answer.estimate.bytes())),
                             frontend::flagsOf(answer.options));
  for (const std::string &reason : {found.refusal, found.misfit})
    if (!reason.empty())
      std::cout << "last refusal: " << reason << "\n";
  return Status::ok();
}

Status run(std::vector<std::string> words) {
  int64_t devices = 0;
  if (!words.empty() && std::isdigit(words.front().front())) {
    devices = std::stoll(words.front());
    words.erase(words.begin());
  }
  frontend::Supported supported = tools::supportedByCompiler();
  MGC_ASSIGN(flags, tools::parseCompileFlags(words, supported));
  MGC_ASSIGN(file, frontend::loadModel(flags.model));
  MGC_TRY(tools::addMachineFile(flags.layout.machine.value_or(""), supported));
  const planner::MakeModule make =
      [&](mlir::MLIRContext &context,
          const frontend::LayoutOptions &options) -> Result<mlir::OwningOpRef<mlir::ModuleOp>> {
    MGC_ASSIGN(layout, frontend::resolveLayout(file.model, options, file.defaults, supported));
    mlir::OwningOpRef<mlir::ModuleOp> module = frontend::importModel(context, file.model, layout);
    if (layout.target.name != supported.targets.front().name)
      (*module)->setAttr("mg.target", mlir::StringAttr::get(&context, layout.target.name));
    return module;
  };
  if (devices > 0)
    return searchAll(flags, file, supported, make, devices);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MgDialect, mlir::func::FuncDialect>();
  MGC_ASSIGN(layout, frontend::resolveLayout(file.model, flags.layout, file.defaults, supported));
  MGC_ASSIGN(first, make(context, flags.layout));
  MGC_ASSIGN(machine, machineNamedIn(*first));
  double start = now();
  MGC_ASSIGN(shape, planner::ShapeBlocks::compile(context, flags.layout, make, machine));
  const double compiled = now() - start;
  planner::EstimateCache cache;
  MGC_ASSIGN(once, planner::estimate(*shape, layout, machine, cache));
  start = now();
  MGC_ASSIGN(estimate, planner::estimate(*shape, layout, machine, cache));
  for (int i = 1; i < 20; ++i)
    MGC_TRY(planner::estimate(*shape, layout, machine, cache).status());
  const double estimated = (now() - start) / 20;
  start = now();
  const planner::Trial trial = planner::tryEach({flags.layout}, make).front();
  const double tried = now() - start;
  if (!trial.hasPlan())
    return errorf("{}", trial.refusal);
  std::cout << fmt::format("seconds {:.6f} of {:.6f} ({:+.3f} %), bytes {} of {} ({:+.4f} %); blocks {:.1f} ms, "
                           "estimate {:.2f} ms, compiled {:.1f} ms\n",
                           estimate.seconds, trial.seconds, 100 * (estimate.seconds / trial.seconds - 1),
                           estimate.bytes(), trial.bytes, 100 * (double(estimate.bytes()) / double(trial.bytes) - 1),
                           1e3 * compiled, 1e3 * estimated, 1e3 * tried);
  return Status::ok();
}

} // namespace

int main(int argc, char **argv) {
  const Status status = run({argv + 1, argv + argc});
  if (!status.isOk())
    std::cerr << status.message() << "\n";
  return status.isOk() ? 0 : 1;
}
