#include "compiler/fuse/OverlapOrder.h"

#include "dialects/mg/Target.h"

using namespace mlir;

namespace mgc {

namespace {

// Adds the operands of the op and of all ops inside it.
void addReads(Operation *op, llvm::DenseSet<Value> &reads) {
  op->walk([&](Operation *inner) { reads.insert(inner->operand_begin(), inner->operand_end()); });
}

struct ProductMove {
  SmallVector<Operation *> ops; // in their order; empty: there is no product to run beside
  Operation *after = nullptr;   // null: the begin of the block
};

// Goes up until something that the collective may not pass.
ProductMove moveOf(Operation *collective) {
  ProductMove move{{collective}};
  llvm::DenseSet<Value> reads;
  addReads(collective, reads);
  bool passesProduct = false;
  for (move.after = collective->getPrevNode(); move.after; move.after = move.after->getPrevNode()) {
    Operation *op = move.after;
    bool isNeeded = llvm::any_of(op->getResults(), [&](Value result) { return reads.contains(result); });
    if (isCollective(op) && isNeeded && move.ops.size() > 1)
      return {};
    if (isCollective(op) || isa<TileOp>(op))
      break;
    if (isa<LibraryOpInterface>(op)) {
      if (isNeeded || passesProduct)
        break;
      passesProduct = true;
    } else if (isNeeded) {
      move.ops.push_back(op);
      addReads(op, reads);
    }
  }
  if (!passesProduct)
    return {};
  std::reverse(move.ops.begin(), move.ops.end());
  return move;
}

} // namespace

void orderForOverlap(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isCollective(&op))
      continue;
    ProductMove move = moveOf(&op);
    for (Operation *moved : move.ops) {
      if (move.after)
        moved->moveAfter(move.after);
      else
        moved->moveBefore(&block, block.begin());
      move.after = moved;
    }
  }
}

} // namespace mgc
