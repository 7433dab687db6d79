// See Tiling.h. The rules are those of pending sums (AxisRule.h), with parts in the place of ranks.
#include "dialects/mg/Tiling.h"

using namespace mlir;

namespace mgc {

using State = TileFlow::State;

State TileFlow::stateOf(Value value) const {
  if (auto known = summands_.find(value); known != summands_.end())
    return known->second;
  LayoutAttr layout = layoutOf(value);
  int64_t position = layout ? layout.indexOf(dim_) : -1;
  return position < 0 ? State::whole : position == 0 ? State::part : State::neither;
}

bool TileFlow::add(Operation *op) {
  if (auto kernel = dyn_cast<KernelOp>(op))
    return addKernel(kernel);
  if (auto compute = dyn_cast<ComputeOpInterface>(op))
    return addCompute(compute);
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective && stateOf(op->getOperand(0)) == State::part && !llvm::is_contained(collective.getMovedDims(), 0);
}

bool TileFlow::addKernel(KernelOp kernel) {
  Block &body = kernel.getBody().front();
  for (Operation &op : body.without_terminator())
    if (!add(&op))
      return false;
  for (auto [yielded, result] : llvm::zip(body.getTerminator()->getOperands(), kernel.getResults()))
    if (State state = stateOf(yielded); state == State::summand)
      summands_[result] = state;
  return true;
}

std::optional<State> TileFlow::join(Operation *op, ArrayRef<Linear> linear) const {
  size_t parts = 0, summands = 0, joint = 0;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    State state = stateOf(operand);
    if (state == State::neither || (state == State::summand && linear[i] == Linear::none))
      return std::nullopt;
    parts += state == State::part;
    summands += state == State::summand;
    joint += linear[i] == Linear::joint;
  }
  if (summands > 0)
    return parts == 0 && summands == std::max<size_t>(joint, 1) ? std::optional(State::summand) : std::nullopt;
  return parts > 0 ? State::part : State::whole;
}

bool TileFlow::addCompute(ComputeOpInterface op) {
  AxisRule rule = op.getAxisRule();
  const auto isOf = [&](const AxisRule::Merged &merged) {
    return merged.whole == dim_ || llvm::is_contained(merged.parts, dim_);
  };
  if (llvm::any_of(rule.merged, isOf) || rule.isWhole(dim_) || rule.isRing(dim_) ||
      llvm::is_contained(op.getIndexedFactors(), dim_))
    return false;
  std::optional<State> operands = join(op, rule.linear);
  if (!operands || operands == State::whole)
    return false;
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    State state = stateOf(result);
    bool hasDim = state != State::whole;
    if (hasDim != (operands == State::part) && (hasDim || rule.reductions[i] != Reduction::sum))
      return false;
    if (state == State::neither)
      return false;
    if (!hasDim)
      summands_[result] = State::summand;
  }
  return true;
}

} // namespace mgc
