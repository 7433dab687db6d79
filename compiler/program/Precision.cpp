// See Precision.h.
#include "compiler/program/Precision.h"

#include "compiler/program/Blocks.h"
#include "dialects/mg/Parameter.h"

using namespace mlir;
using namespace mgc;

LogicalResult mgc::verifyParameterTypes(func::FuncOp function) {
  ModuleOp module = function->getParentOfType<ModuleOp>();
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto param = function.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
    if (!param)
      continue;
    Type expected = precisionOf(module, meanLoadOf(param)).values;
    if (elementOf(type) != expected)
      return errorIn(function) << "argument " << i << ": the parameter has elements of " << elementOf(type)
                               << "; expected " << expected << ", "
                               << reasonOfType(meanLoadOf(param), &TrainingSettings::dtype);
  }
  return success();
}

bool mgc::isLogical(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return !tensor || !layoutOf(type) || layoutOf(type).isLogical();
}
