#include "compiler/fuse/OverlapOrder.h"

#include "dialects/mg/Target.h"

using namespace mlir;

namespace mgc {

namespace {

using Ops = SmallVector<Operation *>;

// Adds the operands of the op and of all ops inside it.
void addReads(Operation *op, llvm::DenseSet<Value> &reads) {
  op->walk([&](Operation *inner) { reads.insert(inner->operand_begin(), inner->operand_end()); });
}

bool isRead(Operation *op, const llvm::DenseSet<Value> &reads) {
  return llvm::any_of(op->getResults(), [&](Value result) { return reads.contains(result); });
}

bool isProduct(Operation *op) { return isa<LibraryOpInterface>(op); }

// --- A collective past one product

struct ProductMove {
  Ops ops;                    // in their order; empty: there is no product to overlap
  Operation *after = nullptr; // null: the begin of the block
};

// Goes up until something that the collective may not pass.
ProductMove moveOf(Operation *collective) {
  ProductMove move{{collective}};
  llvm::DenseSet<Value> reads;
  addReads(collective, reads);
  bool passesProduct = false;
  for (move.after = collective->getPrevNode(); move.after; move.after = move.after->getPrevNode()) {
    Operation *op = move.after;
    bool isNeeded = isRead(op, reads);
    if (isCollective(op) && isNeeded && move.ops.size() > 1)
      return {};
    if (isCollective(op) || isa<TileOp>(op))
      break;
    if (isProduct(op)) {
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

void movePastOne(Operation *collective) {
  ProductMove move = moveOf(collective);
  for (Operation *moved : move.ops) {
    if (move.after)
      moved->moveAfter(move.after);
    else
      moved->moveBefore(collective->getBlock(), collective->getBlock()->begin());
    move.after = moved;
  }
}

// --- An exchange past products

// The ops from `begin` up to `op` that it needs, in order.
Ops neededFrom(Operation *begin, Operation *op) {
  llvm::DenseSet<Value> reads;
  addReads(op, reads);
  Ops needed;
  for (Operation *at = op; at != begin;) {
    at = at->getPrevNode();
    if (!isRead(at, reads))
      continue;
    needed.push_back(at);
    addReads(at, reads);
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

// The first op behind `maker` that reads it.
Operation *firstUser(Operation *maker) {
  Operation *first = nullptr;
  for (Operation *user : maker->getUsers())
    if (Operation *at = maker->getBlock()->findAncestorOpInBlock(*user); !first || at->isBeforeInBlock(first))
      first = at;
  return first;
}

// The nearest one in front of the op; null: there is none, or a tile stands between.
Operation *collectiveBefore(Operation *op) {
  do
    op = op->getPrevNode();
  while (op && !isCollective(op) && !isa<TileOp>(op));
  return op && isCollective(op) ? op : nullptr;
}

// Moves an exchange, with what it needs, up past matrix products that it does not need: rule 1 of the header.
void raise(Operation *exchange) {
  Operation *before = collectiveBefore(exchange);
  if (!before)
    return;
  Operation *begin = before->getNextNode();
  Ops needed = neededFrom(begin, exchange);
  const auto usesBefore = [&](Operation *op) {
    llvm::DenseSet<Value> reads;
    addReads(op, reads);
    return isRead(before, reads);
  };
  if (llvm::any_of(needed, [&](Operation *op) { return isProduct(op) || usesBefore(op); })) {
    begin = firstUser(before);
    if (!begin || !begin->isBeforeInBlock(exchange))
      return;
    needed = neededFrom(begin, exchange);
  }
  const llvm::DenseSet<Operation *> moved(needed.begin(), needed.end());
  while (begin != exchange && moved.contains(begin)) // these stay where they are
    begin = begin->getNextNode();
  bool passesProduct = false;
  for (Operation *op = begin; op != exchange; op = op->getNextNode())
    passesProduct |= isProduct(op) && !moved.contains(op);
  if (!passesProduct)
    return;
  for (Operation *op : needed)
    if (begin->isBeforeInBlock(op))
      op->moveBefore(begin);
  exchange->moveBefore(begin);
}

// --- Products for an exchange that overlaps none

// The ops behind `op` that need neither it nor an exchange behind it, in order.
Ops independentBehind(Operation *op) {
  llvm::DenseSet<Operation *> dependent{op};
  Ops independent;
  for (Operation *at = op->getNextNode(); at; at = at->getNextNode()) {
    llvm::DenseSet<Value> reads;
    addReads(at, reads);
    const auto isOfDependent = [&](Value value) { return dependent.contains(value.getDefiningOp()); };
    if (llvm::any_of(reads, isOfDependent) || isa<ExchangeOp, TileOp>(at) || at->hasTrait<OpTrait::IsTerminator>())
      dependent.insert(at);
    else
      independent.push_back(at);
  }
  return independent;
}

// The matrix products among independent ops, but for the last of several, and the ops that products need; in order.
Ops drawnOf(const Ops &independent) {
  const int64_t products = llvm::count_if(independent, isProduct);
  llvm::DenseSet<Value> reads;
  Ops drawn;
  bool isLast = true;
  for (Operation *op : llvm::reverse(independent)) {
    if (!isProduct(op) && !isRead(op, reads))
      continue;
    addReads(op, reads);
    if (!isProduct(op) || !std::exchange(isLast, false) || products == 1)
      drawn.push_back(op);
  }
  std::reverse(drawn.begin(), drawn.end());
  return drawn;
}

// Moves matrix products from behind an exchange so that they overlap it: rule 2 of the header.
void drawProducts(Operation *exchange) {
  Operation *user = firstUser(exchange);
  if (!user)
    return;
  for (Operation *op = exchange->getNextNode(); op != user; op = op->getNextNode())
    if (isProduct(op))
      return;
  const Ops drawn = drawnOf(independentBehind(exchange));
  llvm::DenseSet<Operation *> early; // collectives, with what they need, that no drawn product precedes
  const llvm::DenseSet<Operation *> all(drawn.begin(), drawn.end());
  for (Operation *op : drawn) {
    if (!isCollective(op))
      continue;
    const Ops needed = neededFrom(drawn.front(), op);
    if (llvm::none_of(needed, [&](Operation *one) { return isProduct(one) && all.contains(one); }))
      early.insert(needed.begin(), needed.end()), early.insert(op);
  }
  llvm::DenseSet<Value> reads;
  for (Operation *op : early)
    addReads(op, reads);
  Operation *first = exchange;
  for (Operation *before; (before = first->getPrevNode()) && isa<ExchangeOp>(before) && !isRead(before, reads);)
    first = before;
  for (Operation *op : drawn) {
    if (early.contains(op))
      op->moveBefore(first);
    else if (user->isBeforeInBlock(op)) // others stand where what reads them may follow
      op->moveBefore(user);
  }
}

} // namespace

void orderForOverlap(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (isa<ExchangeOp>(op))
      raise(&op);
    else if (isCollective(&op))
      movePastOne(&op);
  }
  for (ExchangeOp exchange : llvm::make_early_inc_range(block.getOps<ExchangeOp>()))
    drawProducts(exchange);
}

} // namespace mgc
