// Arguments of backward functions match the results of forward and input, and results of backward functions match the
// arguments of forward: the same number, of the same types.
#include "compiler/program/Blocks.h"

using namespace mlir;
using namespace mgc;

using Arg = BlockFunction::ArgumentKind;
using Res = BlockFunction::ResultKind;

namespace {

// The type of an argument or result, and from local on its sharded type.
struct Types {
  RankedTensorType type;
  Attribute sharded;
  bool operator==(const Types &) const = default;
};
Types argumentTypes(const BlockFunction &function, size_t i) {
  return {function.argumentType(i), func::FuncOp(function.function).getArgAttr(i, kTypeAttr)};
}
Types resultTypes(const BlockFunction &function, size_t i) {
  return {function.resultType(i), func::FuncOp(function.function).getResultAttr(i, kTypeAttr)};
}

std::string describe(const Types &types) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << types.type;
  if (types.sharded)
    out << " (" << kTypeAttr << " = " << types.sharded << ")";
  return text;
}

// A gradient has the type of its parameter, but for what is pending.
bool fitsGradient(RankedTensorType parameter, RankedTensorType gradient) {
  if (!parameter || !gradient)
    return parameter == gradient;
  LayoutAttr from = layoutOf(parameter), to = layoutOf(gradient);
  return parameter.getShape() == gradient.getShape() && from && to && from.getNames() == to.getNames() &&
         from.getAxes() == to.getAxes();
}

InFlightDiagnostic argumentError(const BlockFunction &function, size_t i) {
  return errorIn(function.function) << "argument " << i << " ";
}

// The types of what an argument is given; an error when nothing gives it.
FailureOr<Types> givenTo(const ModelBlock &block, const BlockFunction &function, size_t i) {
  const auto &[kind, index, isFrozen] = function.arguments[i];
  func::FuncOp op = function.function, forward = block.forward.function;
  if (kind == Arg::parameter) {
    if (index < 0)
      return argumentError(function, i) << "is no parameter of the block's forward function";
    return argumentTypes(block.forward, index);
  }
  if (kind == Arg::data) {
    for (unsigned k = 0; k < forward.getNumArguments(); ++k)
      if (forward.getArgAttr(k, kDataAttr) == op.getArgAttr(i, kDataAttr))
        return argumentTypes(block.forward, k);
    return argumentError(function, i) << "is data that the block's forward function does not read";
  }
  if (kind == Arg::activation)
    return argumentError(function, i) << "has no " << kArgAttr << "; expected dout, saved or split";
  const BlockFunction &giver = kind == Arg::split ? block.input : block.forward;
  Res wanted = kind == Arg::dout ? Res::out : kind == Arg::saved ? Res::saved : Res::split;
  std::vector<int64_t> given = giver ? giver.resultsOf(wanted) : std::vector<int64_t>();
  if (index < 0 || index >= int64_t(given.size()))
    return argumentError(function, i) << "has " << kIndexAttr << " " << index << " of " << given.size();
  if (kind == Arg::dout && giver.results[given[index]].frozen)
    return argumentError(function, i) << "is the gradient of result " << given[index] << " of forward, which is "
                                      << kFrozenAttr << " and has none";
  return resultTypes(giver, given[index]);
}

LogicalResult verifyArguments(const ModelBlock &block, const BlockFunction &function) {
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    auto given = givenTo(block, function, i);
    if (failed(given))
      return failure();
    if (argumentTypes(function, i) != *given)
      return argumentError(function, i) << "is " << describe(argumentTypes(function, i)) << ", but is given "
                                        << describe(*given);
  }
  return success();
}

LogicalResult verifyGradients(const ModelBlock &block, const BlockFunction &function) {
  func::FuncOp op = function.function;
  std::vector<int64_t> dins = function.resultsOf(Res::din);
  if (!dins.empty() && dins.size() != block.differentiated.size())
    return errorIn(op) << "returns " << dins.size() << " din for " << block.differentiated.size()
                       << " activations that have gradients";
  for (int64_t din : dins) {
    const int64_t activation = block.activations[function.results[din].index];
    if (resultTypes(function, din) != argumentTypes(block.forward, activation))
      return errorIn(op) << "result " << din << " is " << describe(resultTypes(function, din))
                         << ", but the activation " << describe(argumentTypes(block.forward, activation));
  }
  for (int64_t grad : function.resultsOf(Res::grad)) {
    Types parameter = argumentTypes(block.forward, function.results[grad].index);
    Types gradient = resultTypes(function, grad);
    if (!fitsGradient(parameter.type, gradient.type) ||
        !fitsGradient(shardedType(parameter.sharded), shardedType(gradient.sharded)))
      return errorIn(op) << "result " << grad << " is " << describe(gradient) << ", but the parameter "
                         << describe(parameter);
  }
  return success();
}

} // namespace

LogicalResult ModelBlock::verify() const {
  for (const BlockFunction *function : {&backward, &input, &weight})
    if (*function && (failed(verifyArguments(*this, *function)) || failed(verifyGradients(*this, *function))))
      return failure();
  return success();
}
