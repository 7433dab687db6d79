// Types of elements: f32 or bf16 for what is computed with, i32 for data.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "plan/Types.h"

namespace mgc {

inline mlir::Type elementOf(mlir::Type tensor) { return mlir::cast<mlir::RankedTensorType>(tensor).getElementType(); }
inline mlir::Type elementOf(mlir::Value value) { return elementOf(value.getType()); }

inline int64_t bytesOfElement(mlir::Type element) { return element.getIntOrFloatBitWidth() / 8; }
inline int64_t bytesOfElement(mlir::Value value) { return bytesOfElement(elementOf(value)); }
// The bytes of a tensor's elements.
inline int64_t bytesOf(mlir::Type tensor) {
  return mlir::cast<mlir::RankedTensorType>(tensor).getNumElements() * bytesOfElement(elementOf(tensor));
}

// The plan's name for an element's type.
plan::DType dtypeOf(mlir::Type element);
// Its inverse for f32 and bf16.
mlir::Type elementType(mlir::MLIRContext *context, plan::DType type);

// Element types that mg.training states.
struct Precision {
  mlir::Type values;                                  // parameters, activations and the gradients of activations
  mlir::Type gradients;                               // gradients of parameters
  bool hasMasters() const { return !values.isF32(); } // parameters in f32, which the optimizer updates
};
Precision precisionOf(mlir::ModuleOp module);

} // namespace mgc
