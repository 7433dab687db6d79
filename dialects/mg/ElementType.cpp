// See ElementType.h.
#include "dialects/mg/Mg.h"

using namespace mlir;
using namespace mgc;

plan::DType mgc::dtypeOf(Type element) {
  if (element.isInteger())
    return plan::DType::i32;
  return element.isBF16() ? plan::DType::bf16 : plan::DType::f32;
}

Precision mgc::precisionOf(ModuleOp module) {
  auto training = module->getAttrOfType<DictionaryAttr>(kTrainingAttr);
  auto element = [&](StringRef name) -> Type {
    auto type = training ? training.getAs<TypeAttr>(name) : TypeAttr();
    return type ? type.getValue() : Float32Type::get(module.getContext());
  };
  return {element(kValueType), element(kGradientType)};
}
