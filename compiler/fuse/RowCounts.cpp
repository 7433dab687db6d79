// See RowCounts.h.
#include "compiler/fuse/RowCounts.h"

using namespace mlir;
using namespace mgc;

// The counts of the order that the op's rows are in; null before mg-order-rows.
static Value countsOfOrder(ExpertRowsOpInterface op) {
  if (op.getRowOrder() == RowOrder::counts)
    return op.getOrder();
  auto group = op.getOrder() ? op.getOrder().getDefiningOp<GroupOp>() : GroupOp();
  return group ? group.getCounts() : Value();
}

static bool hasFirst(Value value, Value rows) {
  if (tensorOf(value).getRank() == 0)
    return false;
  return layoutOf(value).getNames().front() == layoutOf(rows).getNames().front() &&
         tensorOf(value).getDimSize(0) == tensorOf(rows).getDimSize(0);
}

// Whether rows stay where they are: the op has those of its operands at the same places.
static bool keepsRows(Operation *op) {
  if (isa<ExpertRowsOpInterface, RowCountOp>(op))
    return false;
  return isa<RowOpInterface, RenameOp, PartsOp, JoinOp, AllReduceOp, DemoteOp>(op);
}

LogicalResult RowCounts::add(Operation *by, Value rows, Value counts) {
  if (!counts)
    return success();
  auto [known, isNew] = counts_.try_emplace(rows, counts);
  if (isNew)
    open_.push_back(rows);
  return known->second == counts ? success()
                                 : by->emitOpError("has rows of experts in two orders; expected those of one mg.group");
}

LogicalResult RowCounts::addSeeds(ExpertRowsOpInterface op) {
  for (Value rows : op.getRows())
    if (failed(add(op, rows, countsOfOrder(op))))
      return failure();
  return success();
}

LogicalResult RowCounts::spread(Value rows) {
  const Value counts = counts_.lookup(rows);
  const auto visit = [&](Operation *op) -> LogicalResult {
    if (!op || !keepsRows(op))
      return success();
    for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
      for (Value value : values)
        if (hasFirst(value, rows) && failed(add(op, value, counts)))
          return failure();
    return success();
  };
  for (OpOperand &use : rows.getUses()) {
    Operation *user = use.getOwner();
    auto kernel = isa<YieldOp>(user) ? dyn_cast<KernelOp>(user->getParentOp()) : KernelOp();
    if (failed(visit(user)) || (kernel && failed(add(user, kernel.getResult(use.getOperandNumber()), counts))))
      return failure();
  }
  if (auto kernel = rows.getDefiningOp<KernelOp>())
    return add(kernel, kernel.getBody().front().getTerminator()->getOperand(cast<OpResult>(rows).getResultNumber()),
               counts);
  return visit(rows.getDefiningOp());
}

FailureOr<RowCounts> RowCounts::of(Block &block) {
  RowCounts counts;
  const WalkResult seeds = block.walk([&](ExpertRowsOpInterface op) {
    return failed(counts.addSeeds(op)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (seeds.wasInterrupted())
    return failure();
  while (!counts.open_.empty())
    if (failed(counts.spread(counts.open_.pop_back_val())))
      return failure();
  const WalkResult sums = block.walk([&](RowOpInterface op) {
    if (op.getRowSpace().kind != RowSpace::Kind::columns || !counts.countsOf(op))
      return WalkResult::advance();
    op->emitOpError("sums over rows of experts; expected a grouped product, which knows how many there are");
    return WalkResult::interrupt();
  });
  return sums.wasInterrupted() ? FailureOr<RowCounts>(failure()) : std::move(counts);
}

Value RowCounts::countsOf(Operation *op) const {
  const RowSpace space = cast<RowOpInterface>(op).getRowSpace();
  const RowSpace::Dims &dims = space.rows.empty() ? space.columns : space.rows;
  if (dims.empty())
    return {};
  for (ValueRange values : {ValueRange(op->getResults()), ValueRange(op->getOperands())})
    for (Value value : values)
      if (const Value counts = counts_.lookup(value); counts && rowDims(value).front() == dims.front())
        return counts;
  return {};
}
