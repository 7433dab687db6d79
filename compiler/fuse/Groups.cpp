// See Groups.h. State: a graph whose nodes are groups and the other ops. It has no cycle, and no join makes one: two
// nodes are joined only when no path leads from one to the other over a third. Each join takes a node away, so it ends.
#include "compiler/fuse/Groups.h"
#include "compiler/fuse/KernelCost.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

#include <map>

using namespace mlir;
using namespace mgc;

namespace {

class Grouper {
public:
  Grouper(Block &block, const RowNumbers &numbers) : block_(block), numbers_(numbers) {
    for (auto [op, number] : numbers)
      counted_[number].push_back(op);
    Operation *other = nullptr;
    for (Operation &op : block.without_terminator()) {
      bool isRow = isa<RowOpInterface>(op);
      nodeOf_[&op] = nodes_.size();
      nodes_.push_back({{&op}, nullptr, isRow ? *kernelCost({&op}) : 0});
      if (isRow)
        continue;
      if (other) // they keep their order
        nodes_[nodeOf_[other]].next = &op;
      other = &op;
    }
  }

  std::vector<RowGroup> run() {
    findPairs();
    while (joinBestPair())
      ;
    std::vector<RowGroup> groups;
    for (Node &node : nodes_)
      if (!node.ops.empty() && isa<RowOpInterface>(node.ops.front()))
        groups.push_back(std::move(node.ops));
    return groups;
  }

private:
  struct Node {
    RowGroup ops;              // empty: joined to another
    Operation *next = nullptr; // for an op that is no row op: the one that stays behind it
    double cost = 0;
  };
  using Pair = std::pair<size_t, size_t>; // two nodes, the smaller number first

  // Nodes of row ops that share a value: one makes what the other reads, or both read it.
  void findPairs() {
    llvm::DenseMap<Value, llvm::SmallVector<size_t, 4>> touching;
    for (Operation &op : block_.without_terminator()) {
      if (!isa<RowOpInterface>(op))
        continue;
      auto touch = [&](Value value) {
        for (size_t known : touching[value])
          addPair(known, nodeOf_[&op]);
        touching[value].push_back(nodeOf_[&op]);
      };
      llvm::for_each(op.getOperands(), touch);
      llvm::for_each(op.getResults(), touch);
    }
  }

  void addPair(size_t a, size_t b) {
    if (a != b && numbers_.lookup(nodes_[a].ops.front()) == numbers_.lookup(nodes_[b].ops.front()))
      savings_.try_emplace({std::min(a, b), std::max(a, b)}, saving(a, b));
  }

  RowGroup joined(size_t a, size_t b) const {
    RowGroup ops = nodes_[a].ops;
    ops.append(nodes_[b].ops);
    llvm::sort(ops, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
    return ops;
  }

  double saving(size_t a, size_t b) const {
    std::optional<double> cost = kernelCost(joined(a, b));
    return cost ? nodes_[a].cost + nodes_[b].cost - *cost : 0;
  }

  bool joinBestPair() {
    while (true) {
      auto best = llvm::max_element(savings_, [](auto &x, auto &y) { return x.second < y.second; });
      if (best == savings_.end() || best->second <= 0)
        return false;
      auto [a, b] = best->first;
      savings_.erase(best); // a cycle that forbids this join now also forbids it after later joins
      if (leadsAround(a, b) || leadsAround(b, a))
        continue;
      join(a, b);
      return true;
    }
  }

  void join(size_t a, size_t b) {
    nodes_[a].ops = joined(a, b);
    nodes_[a].cost = *kernelCost(nodes_[a].ops);
    nodes_[b] = {};
    for (Operation *op : nodes_[a].ops)
      nodeOf_[op] = a;
    std::vector<Pair> stale;
    for (auto &[pair, saving] : savings_)
      if (pair.first == a || pair.first == b || pair.second == a || pair.second == b)
        stale.push_back(pair);
    for (Pair pair : stale)
      savings_.erase(pair);
    for (auto [x, y] : stale)
      addPair(x == b ? a : x, y == b ? a : y);
  }

  // Whether a path leads from one node to the other over a third.
  bool leadsAround(size_t from, size_t to) const {
    llvm::BitVector seen(nodes_.size());
    llvm::SmallVector<size_t> open;
    auto visit = [&](size_t node) {
      if (!seen.test(node))
        open.push_back(node);
      seen.set(node);
    };
    forEachSuccessor(from, [&](size_t node) {
      if (node != to)
        visit(node);
    });
    while (!open.empty() && !seen.test(to))
      forEachSuccessor(open.pop_back_val(), visit);
    return seen.test(to);
  }

  template <typename Visit> void forEachSuccessor(size_t node, Visit visit) const {
    auto visitOp = [&](Operation *op) {
      auto successor = nodeOf_.find(block_.findAncestorOpInBlock(*op)); // not the terminator
      if (successor != nodeOf_.end() && successor->second != node)
        visit(successor->second);
    };
    for (Operation *op : nodes_[node].ops) {
      llvm::for_each(op->getUsers(), visitOp);
      for (Value result : op->getResults())
        if (auto counted = counted_.find(result); counted != counted_.end())
          llvm::for_each(counted->second, visitOp);
    }
    if (nodes_[node].next)
      visitOp(nodes_[node].next);
  }

  Block &block_;
  const RowNumbers &numbers_;
  llvm::DenseMap<Value, RowGroup> counted_; // by number
  std::vector<Node> nodes_;
  llvm::DenseMap<Operation *, size_t> nodeOf_;
  std::map<Pair, double> savings_; // bytes; of pairs that share a value
};

} // namespace

std::vector<RowGroup> mgc::findRowGroups(Block &block, const RowNumbers &numbers) {
  return Grouper(block, numbers).run();
}
