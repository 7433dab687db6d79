// See Groups.h. Invariant: an edge between two groups goes from the group whose last op stands earlier to the
// other; a group is moved down only past ops that do not use it, so the invariant holds and no cycle can
// arise.
#include "compiler/fuse/Groups.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace mgc;

namespace {

// A kernel with more than this many ops compiles slowly and spills registers.
constexpr size_t kMostOps = 12;

bool isDear(Operation *op) { return cast<RowOpInterface>(op).isDear(); }

// Needs all columns of a row before it has a result: the kernel passes over them again. A row that is looked up
// is only copied.
bool reduces(RowOpInterface op, const RowSpace &space) {
  return space.kind == RowSpace::Kind::rows && !space.columns.empty() && !op.getLookupTable();
}

class Grouper {
public:
  explicit Grouper(Block &block) : block_(block) {
    for (auto [i, op] : llvm::enumerate(block))
      position_[&op] = i;
  }

  void add(RowOpInterface op) {
    RowSpace space = op.getRowSpace();
    for (size_t g = groups_.size(); g-- > 0;)
      if (isNear(groups_[g], op)) {
        auto merged = mergeSpaces(groups_[g].space, space);
        if (merged && mayJoin(g, op, space)) {
          groups_[g].space = *merged;
          groups_[g].ops.push_back(op);
          groupOf_[op] = g;
          return;
        }
      }
    groupOf_[op] = groups_.size();
    groups_.push_back({space, {op}});
  }

  std::vector<RowGroup> take() { return std::move(groups_); }

private:
  // Makes or reads an operand of the op that is large enough to matter.
  bool isNear(const RowGroup &group, Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return llvm::any_of(group.ops, [&](Operation *other) {
        return operand.getDefiningOp() == other ||
               (tensorOf(operand).getRank() >= 2 && llvm::is_contained(other->getOperands(), operand));
      });
    });
  }

  bool mayJoin(size_t g, RowOpInterface op, const RowSpace &space) {
    RowGroup &group = groups_[g];
    if (group.ops.size() >= kMostOps || (reduces(op, space) && llvm::any_of(group.ops, isDear)))
      return false;
    Value table = op.getLookupTable();
    auto isIn = [&](Operation *other) {
      auto it = groupOf_.find(other);
      return it != groupOf_.end() && it->second == g;
    };
    if (table && table.getDefiningOp() && isIn(table.getDefiningOp()))
      return false;
    if (group.space.kind == RowSpace::Kind::columns) // sums over rows are known only after the kernel
      for (Value operand : op->getOperands())
        if (operand.getDefiningOp() && isIn(operand.getDefiningOp()))
          return false;
    return llvm::all_of(group.ops, [&](Operation *member) {
      return llvm::all_of(member->getUsers(), [&](Operation *user) {
        return user == op || isIn(user) || positionOf(user) > position_.lookup(op);
      });
    });
  }

  // Of the op of the block that holds the user.
  size_t positionOf(Operation *user) { return position_.lookup(block_.findAncestorOpInBlock(*user)); }

  Block &block_;
  llvm::DenseMap<Operation *, size_t> position_, groupOf_;
  std::vector<RowGroup> groups_;
};

} // namespace

std::vector<RowGroup> mgc::findRowGroups(Block &block) {
  Grouper grouper(block);
  for (Operation &op : block)
    if (auto row = dyn_cast<RowOpInterface>(op))
      grouper.add(row);
  return grouper.take();
}
