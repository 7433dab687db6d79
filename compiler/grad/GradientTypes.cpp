// See GradientTypes.h.
#include "compiler/grad/GradientTypes.h"

using namespace mlir;
using namespace mgc;

Value GradientTypes::inElement(Value value, Operation *user, unsigned uses) const {
  if (Value source = unrounded(value, uses))
    return source;
  if (elementOf(value) == element_ || retype(value, uses))
    return value;
  OpBuilder builder(user);
  return CastOp::create(builder, user->getLoc(), tensorOf(value).clone(element_), value);
}

// The operand of the cast that rounds the value, if it has the type; null: there is none. Nothing reads the cast
// afterwards.
Value GradientTypes::unrounded(Value value, unsigned uses) const {
  auto cast = value.getDefiningOp<CastOp>();
  return cast && elementOf(cast.getValue()) == element_ && !kept_.contains(value) && value.hasNUses(uses)
             ? cast.getValue()
             : Value();
}

// The operand is added to others as it is: element by element, and linear.
static bool isSummand(OpOperand &operand) {
  Operation *op = operand.getOwner();
  return isa<FloatType>(elementOf(operand.get())) &&
         tensorOf(operand.get()).getShape() == tensorOf(op->getResult(0)).getShape() &&
         cast<ComputeOpInterface>(op).getAxisRule().linear[operand.getOperandNumber()] != Linear::none;
}

// Whether what makes the value makes it of the type now. `uses` of it are known to take that.
bool GradientTypes::retype(Value value, unsigned uses) const {
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumResults() != 1 || kept_.contains(value) || !value.hasNUses(uses))
    return false;
  if (op->hasTrait<MovesData>()) {
    for (OpOperand &operand : op->getOpOperands())
      operand.set(inElement(operand.get(), op, 1));
  } else if (isa<RowOpInterface>(op)) {
    for (OpOperand &operand : op->getOpOperands())
      if (isSummand(operand) && elementOf(operand.get()) != element_) {
        if (Value source = unrounded(operand.get(), 1))
          operand.set(source);
        else
          retype(operand.get(), 1);
      }
  } else if (!isa<EinsumOp, GroupedEinsumGradOp>(op)) {
    return false;
  }
  value.setType(tensorOf(value).clone(element_));
  return true;
}
