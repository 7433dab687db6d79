// mg-opt: any pass on any form of the IR, mlir-opt style.
#include "compiler/program/Passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "tools/process/CompilerProcess.h"
#include "tools/version/Version.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

namespace mgc {
#define GEN_PASS_REGISTRATION
#include "compiler/program/Passes.h.inc"
} // namespace mgc

int main(int argc, char **argv) {
  mgc::tools::prepareCompiler("mg-opt");
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &stream) {
    stream << mgc::tools::versionText("mg-opt", {"LLVM and MLIR " LLVM_VERSION_STRING}) << "\n";
  });
  mlir::DialectRegistry registry;
  registry.insert<mgc::MgDialect, mlir::func::FuncDialect>();
  mlir::registerTransformsPasses();
  mgc::registerMgPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "mgc: passes over the mg dialect\n", registry));
}
