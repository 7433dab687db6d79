// See Lowering.h.
#include "codegen/rows/loops/Lowering.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mgc::rowgen {

bool lowerLoops(mlir::Operation *module) {
  mlir::MLIRContext *context = module->getContext();
  mlir::RewritePatternSet patterns(context);
  mlir::populateSCFToControlFlowConversionPatterns(patterns);
  mlir::ConversionTarget flat(*context);
  flat.addIllegalDialect<mlir::scf::SCFDialect>();
  flat.markUnknownOpDynamicallyLegal([](mlir::Operation *) { return true; });
  return succeeded(applyPartialConversion(module, flat, std::move(patterns)));
}

std::vector<int64_t> needsOf(const KernelInfo &info) {
  std::vector<int64_t> needs = {info.range, info.scalars, int64_t(info.operands.size())};
  for (const auto &[use, bytes, rowBytes, rowStride, counted] : info.operands)
    needs.insert(needs.end(), {int64_t(use) + (counted ? plan::kCountedUse : 0), bytes, rowBytes, rowStride});
  return needs;
}

ModuleDiagnostics::ModuleDiagnostics(mlir::MLIRContext &context, const std::vector<const NamedGraph *> &kernels)
    : kernels_(kernels), handler_(&context, [this](mlir::Diagnostic &diagnostic) {
        text_ += "\n  " + diagnostic.str();
        return mlir::success();
      }) {}

Status ModuleDiagnostics::failure(std::string_view step) const {
  return errorf("kernels {} to {}: {} failed{}", kernels_.front()->symbol, kernels_.back()->symbol, step, text_);
}

std::string printed(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

} // namespace mgc::rowgen
