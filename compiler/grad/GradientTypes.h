// The element type of parameters' gradients (mg.training's gradient_dtype), where parameters and activations have another.
#pragma once

#include "dialects/mg/Mg.h"

#include "llvm/ADT/DenseSet.h"

namespace mgc {

class GradientTypes {
public:
  // kept: values that are returned besides, whose types stay.
  GradientTypes(mlir::Type element, llvm::ArrayRef<mlir::Value> kept)
      : element_(element), kept_(kept.begin(), kept.end()) {}

  // The gradient, which nothing reads yet, with elements of the type: made so by what makes it, or cast before `end`. A
  // matrix product and a row op compute in f32 whatever they read; of a sum each summand is made so too, if it is
  // nothing else; what was rounded from the type is not. So a gradient that goes into a bucket is rounded at its end, if at all.
  mlir::Value make(mlir::Value gradient, mlir::Operation *end) const { return inElement(gradient, end, 0); }

private:
  mlir::Value inElement(mlir::Value value, mlir::Operation *user, unsigned uses) const;
  bool retype(mlir::Value value, unsigned uses) const;
  mlir::Value unrounded(mlir::Value value, unsigned uses) const;

  mlir::Type element_;
  llvm::DenseSet<mlir::Value> kept_;
};

} // namespace mgc
