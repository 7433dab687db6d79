// mg-opt: any pass on any form of the IR, mlir-opt style.
#include "compiler/Passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

namespace mgc {
#define GEN_PASS_REGISTRATION
#include "compiler/Passes.h.inc"
} // namespace mgc

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mgc::MgDialect, mlir::func::FuncDialect>();
  mlir::registerTransformsPasses();
  mgc::registerMgPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "mgc: passes over the mg dialect\n", registry));
}
