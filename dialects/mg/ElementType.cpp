// See ElementType.h.
#include "dialects/mg/Mg.h"

using namespace mlir;
using namespace mgc;

plan::DType mgc::dtypeOf(Type element) {
  if (element.isInteger())
    return plan::DType::i32;
  return element.isBF16() ? plan::DType::bf16 : plan::DType::f32;
}

Type mgc::elementType(MLIRContext *context, plan::DType type) {
  return type == plan::DType::bf16 ? Type(BFloat16Type::get(context)) : Type(Float32Type::get(context));
}

Precision mgc::precisionOf(ModuleOp module) {
  const TrainingSettings &training = trainingOf(module);
  return {elementType(module.getContext(), training.dtype), elementType(module.getContext(), training.gradientType)};
}
