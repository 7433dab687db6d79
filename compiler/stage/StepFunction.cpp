// See StepFunction.h.
#include "compiler/stage/StepFunction.h"

using namespace mlir;

namespace mgc {

static Bound boundIn(DictionaryAttr buffer) {
  auto index = buffer.getAs<IntegerAttr>("index");
  return {buffer.getAs<StringAttr>("kind").getValue(), index ? index.getInt() : -1};
}

std::string toString(const Bound &bound) {
  return bound.index < 0 ? bound.kind.str() : fmt::format("{} {}", bound.kind.str(), bound.index);
}

StepFunction::StepFunction(StageOp stage, StringRef symbol)
    : function_(stage->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(symbol)), stage_(stage.getNumber()) {}

InFlightDiagnostic StepFunction::error() const { return errorIn(function_) << "stage " << stage_ << ": "; }

Bound StepFunction::boundOf(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument
             ? boundIn(func::FuncOp(function_).getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), kBufferAttr))
             : Bound();
}

Bound StepFunction::boundOfResult(unsigned result) const {
  return boundIn(func::FuncOp(function_).getResultAttrOfType<DictionaryAttr>(result, kBufferAttr));
}

Value StepFunction::result(unsigned i) const {
  return func::FuncOp(function_).getBody().front().getTerminator()->getOperand(i);
}

FailureOr<Value> StepFunction::resultAt(const Bound &bound) const {
  SmallVector<Value> found;
  for (unsigned i = 0; i < func::FuncOp(function_).getNumResults(); ++i)
    if (boundOfResult(i) == bound)
      found.push_back(result(i));
  if (found.size() == 1)
    return found.front();
  return error() << found.size() << " results are bound to " << toString(bound) << "; expected one";
}

std::string StepFunction::describe(Value value) const {
  value = sourceOf(value);
  if (auto argument = dyn_cast<BlockArgument>(value))
    return fmt::format("argument {}, bound to {}", argument.getArgNumber(), toString(boundOf(value)));
  return "made by " + value.getDefiningOp()->getName().getStringRef().str();
}

Value sourceOf(Value value) {
  while (auto kernel = value.getDefiningOp<KernelOp>())
    value = kernel.getBody().front().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber());
  return value;
}

plan::Axes sorted(plan::Axes axes) {
  llvm::sort(axes);
  return axes;
}

} // namespace mgc
