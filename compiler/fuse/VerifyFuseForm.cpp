// See VerifyFuseForm.h.
#include "compiler/fuse/VerifyFuseForm.h"

#include "compiler/fuse/RowCounts.h"
#include "compiler/fuse/ValueParts.h"
#include "compiler/program/Blocks.h"

using namespace mlir;
using namespace mgc;

namespace {

LogicalResult verifyYields(TileOp tile);

LogicalResult verifyViews(Operation *op) {
  if (auto parts = dyn_cast<PartsOp>(op))
    for (Value part : parts.getParts())
      for (OpOperand *use : denseUses(part))
        return use->getOwner()->emitOpError() << "takes operand " << use->getOperandNumber()
                                              << ", a part in another value's memory; expected a dense copy of it";
  if (auto join = dyn_cast<JoinOp>(op))
    for (size_t part = 0; part < join.getParts().size(); ++part)
      if (!isMadeInPlace(join, part))
        return join.emitOpError() << "part " << part << " is not made where it lies in the value; expected the result "
                                  << "of a kernel or attention that is joined once, and not returned";
  return success();
}

// The counts whose sum is the number of a kernel's rows; null, where it has none or it is another.
Value countsOf(KernelOp kernel) {
  auto number = kernel.getNumber() ? dyn_cast<OpResult>(kernel.getNumber()) : OpResult();
  auto maker = number ? dyn_cast<KernelOp>(number.getOwner()) : KernelOp();
  auto count = maker ? maker.getBody().front().getTerminator()->getOperand(number.getResultNumber()) : Value();
  auto sum = count ? count.getDefiningOp<RowCountOp>() : RowCountOp();
  return sum ? sum.getCounts() : Value();
}

// A kernel does the rows of experts that there are, of one order, and all others.
LogicalResult verifyCounts(Block &block) {
  FailureOr<RowCounts> counts = RowCounts::of(block);
  if (failed(counts))
    return failure();
  for (auto kernel : block.getOps<KernelOp>()) {
    if (kernel.getNumber() && !countsOf(kernel))
      return kernel.emitOpError("does as many rows as a number says that is no mg.row_count's; expected that of the "
                                "counts of its rows");
    for (auto op : kernel.getBody().front().getOps<RowOpInterface>())
      if (counts->countsOf(op) != countsOf(kernel))
        return op->emitOpError("is on other rows than those that its kernel counts; expected mg.row_count of the "
                               "counts of its rows, or no number where they are no expert's");
  }
  return success();
}

LogicalResult verifyOps(Block &block) {
  if (failed(verifyCounts(block)))
    return failure();
  for (Operation &op : block.without_terminator()) {
    auto tile = dyn_cast<TileOp>(op);
    if (tile && (failed(verifyOps(tile.getBody().front())) || failed(verifyYields(tile))))
      return failure();
    if (!tile && !isa<InstructionOpInterface, KernelOp>(op) && !op.hasTrait<MovesData>())
      return op.emitOpError("is neither a library call, nor a kernel, nor a move or collective");
    if (failed(verifyViews(&op)))
      return failure();
  }
  return success();
}

LogicalResult verifyYields(TileOp tile) {
  OwnMemory owned;
  for (auto [i, value] : llvm::enumerate(tile.getYield().getOperands())) {
    if (!owned.claim(value))
      return tile.emitOpError() << "yields a value " << i << " without memory of its own";
    if (tile.isSum(i) && !isOnlyAdded(value))
      return tile.emitOpError() << "adds up a value " << i << " that is made by no mg.einsum or mg.kernel, or used "
                                << "before it is complete";
  }
  return success();
}

LogicalResult verifyResults(const BlockFunction &block) {
  func::FuncOp function = block.function;
  OwnMemory owned;
  for (auto [i, result] : llvm::enumerate(block.results)) {
    Value value = function.getBody().front().getTerminator()->getOperand(i);
    if (result.accumulates() && !isOnlyAdded(value))
      return errorIn(function) << "result " << i << " is added to its place, but is made by no mg.einsum, mg.kernel "
                               << "or sum of mg.tile, or read besides";
    if (result.activation < 0 && !owned.claim(value))
      return errorIn(function) << "result " << i << " is an argument or another result; expected a value "
                               << "with memory of its own";
  }
  return success();
}

} // namespace

LogicalResult mgc::verifyFuseForm(ModuleOp module) {
  auto blocks = Blocks::read(module);
  if (failed(blocks))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kPassAttr) && failed(verifyOps(function.getBody().front())))
      return failure();
  for (const auto &[name, block] : *blocks)
    for (const BlockFunction *function : block.functions())
      if (failed(verifyResults(*function)))
        return failure();
  return success();
}
