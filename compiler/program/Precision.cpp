// See Precision.h.
#include "compiler/program/Precision.h"

#include "compiler/program/Blocks.h"

using namespace mlir;
using namespace mgc;

LogicalResult mgc::verifyPrecision(ModuleOp module) {
  auto [values, gradients] = precisionOf(module);
  auto isKnown = [](Type type) { return type.isF32() || type.isBF16(); };
  if (isKnown(values) && (gradients.isF32() || gradients == values))
    return success();
  return module.emitError() << kTrainingAttr << ": " << kValueType << " = " << values << ", " << kGradientType
                            << " = " << gradients
                            << "; expected f32 or bf16, and gradients of that type or f32";
}

LogicalResult mgc::verifyParameterTypes(func::FuncOp function) {
  Type expected = precisionOf(function->getParentOfType<ModuleOp>()).values;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (function.getArgAttr(i, kParamAttr) && elementOf(type) != expected)
      return errorIn(function) << "argument " << i << ": the parameter has elements of " << elementOf(type)
                               << "; expected " << expected << ", the " << kValueType << " of "
                               << kTrainingAttr;
  return success();
}

bool mgc::isLogical(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return !tensor || !layoutOf(type) || layoutOf(type).isLogical();
}
