// mgc: the compiler's command line. Parses flags and calls libraries.
#include "compiler/Phases.h"
#include "compiler/emit/Emit.h"
#include "compiler/schedule/Schedule.h"
#include "frontend/Import.h"
#include "frontend/Load.h"
#include "frontend/Placement.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tools/Explain.h"
#include "tools/Flags.h"
#include "tools/Process.h"

#include "llvm/Support/raw_ostream.h"

using namespace mgc;
using namespace mgc::tools;

namespace {

frontend::Supported supportedByCompiler() {
  frontend::Supported supported;
  for (const schedule::Row &row : schedule::schedules())
    supported.schedules.push_back(
        {row.name, row.splitBackward, row.minVirtualStages, row.maxVirtualStages, row.byDefault});
  return supported;
}

bool isGiven(const frontend::LayoutOptions &layout) {
  return layout.tp || layout.pp || layout.dp || layout.world || layout.vpp || layout.seq || layout.mbs ||
         layout.gbs || layout.zero || layout.sp || layout.schedule || layout.dtype || layout.target;
}

Result<mlir::OwningOpRef<mlir::ModuleOp>> parseModule(mlir::MLIRContext &context, const std::string &path) {
  std::string messages;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    llvm::raw_string_ostream stream(messages);
    stream << (messages.empty() ? "" : "\n") << diagnostic.getLocation() << ": " << diagnostic;
    return mlir::success();
  });
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!module)
    return errorf("{}: {}", path, messages);
  return module;
}

// The logical module of a model description or of a .mlir file, and the choices that were made, printed.
Result<mlir::OwningOpRef<mlir::ModuleOp>> importAny(mlir::MLIRContext &context, const CompileFlags &flags) {
  if (llvm::StringRef(flags.model).ends_with(".mlir")) {
    if (isGiven(flags.layout))
      return errorf("{}: a program has its layout in it; flags of the layout are for model descriptions",
                    flags.model);
    return parseModule(context, flags.model);
  }
  MGC_ASSIGN(file, frontend::loadModel(flags.model));
  MGC_ASSIGN(layout, frontend::resolveLayout(file.model, flags.layout, file.defaults, supportedByCompiler()));
  say(stderr, "{}", frontend::describe(layout));
  mlir::OwningOpRef<mlir::ModuleOp> module = frontend::importModel(context, file.model, layout);
  if (!module)
    return errorf("{}: the imported program does not verify", flags.model);
  return module;
}

Status compile(const CompileFlags &flags) {
  mlir::MLIRContext context;
  context.loadDialect<MgDialect, mlir::func::FuncDialect>();
  MGC_ASSIGN(module, importAny(context, flags));
  if (!flags.rules.empty())
    MGC_TRY(frontend::setPlacement(*module, flags.rules));
  MGC_TRY(runPhases(*module, {flags.from, flags.to, flags.dump}));
  if (!flags.to.empty())
    return writeModule(*module, flags.output);
  if (Result<plan::Plan> plan = emitBundle(*module, flags.output); !plan.isOk())
    return plan.status();
  say(stderr, "plan in {}\n", flags.output);
  return Status::ok();
}

} // namespace

int main(int argc, char **argv) {
  prepareProcess();
  Parsed parsed = parseFlags(argc, argv);
  if (parsed.exitCode >= 0)
    return parsed.exitCode;
  bool isCompile = parsed.flags.command == Flags::Command::compile;
  Status status = isCompile ? compile(parsed.flags.compile) : explain(parsed.flags.explain);
  if (status.isOk())
    return 0;
  say(stderr, "mgc: {}\n", status.message());
  return 1;
}
