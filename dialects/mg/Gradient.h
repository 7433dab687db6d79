// Interface through which an op states its gradient: cotangents in, contributions out, all on logical values.
#pragma once

#include "dialects/mg/Mg.h"

namespace mgc {

// Copies the tag to an op that differentiates another: the same rows of the rule table hold for both.
inline void copyTag(mlir::Operation *from, mlir::Operation *to) {
  if (mlir::Attribute tag = from->getAttr(kTagAttr))
    to->setAttr(kTagAttr, tag);
}

class GradientBuilder {
public:
  virtual ~GradientBuilder() = default;
  virtual mlir::OpBuilder &builder() = 0;
  virtual mlir::Location loc() = 0;
  // Cotangent of a result of the op; null when nothing depends on it.
  virtual mlir::Value cotangent(mlir::Value result) = 0;
  // Whether the result is what the block adds to the training loss: loss_sum, whose cotangent is 1 by definition (it is
  // scaled by 1/N in the update), or a term.
  virtual bool isSeed(mlir::Value result) = 0;
  // Whether the operand's cotangent is needed at all.
  virtual bool wants(mlir::Value operand) = 0;
  // Adds a contribution of the operand's type to its cotangent.
  virtual void contribute(mlir::Value operand, mlir::Value contribution) = 0;

  // Creates an op whose only result has the type of `like`.
  template <typename Op, typename... Args> mlir::Value make(mlir::Value like, Args &&...args) {
    return Op::create(builder(), loc(), like.getType(), std::forward<Args>(args)...)->getResult(0);
  }
};

} // namespace mgc
