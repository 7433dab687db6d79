// mg-fuse: library calls, row kernels, moves and collectives; nothing else.
//
// before:  %1 = mg.add %x, %0  %2, %mean, %rstd = mg.layer_norm %1, ...  %3 = mg.einsum %2, %w
// after:   %1:2 = mg.kernel { %4 = mg.add ..  %5:3 = mg.layer_norm ..  mg.yield %4, %5#0 }  %3 = mg.einsum
// %1#1, %w
//
// Each result gets a value of its own, so that later phases may place it: a value that is returned twice, or is an
// argument, is copied (a saved activation is not: it is kept anyway). A result that is added to its place (gradients,
// loss) is made by an einsum or a kernel, which can add. The order gives collectives matrix products to overlap
// (OverlapOrder.h).
#include "compiler/fuse/Groups.h"
#include "compiler/fuse/OverlapOrder.h"
#include "compiler/fuse/RowCounts.h"
#include "compiler/fuse/ValueParts.h"
#include "compiler/program/Blocks.h"
#include "compiler/program/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <set>

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_FUSE
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

void eraseDead(Block &body) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

// --- Results

Value copyOf(OpBuilder &builder, Value value) {
  return AccumulateOp::create(builder, value.getLoc(), value.getType(), ValueRange{value},
                              builder.getDenseI64ArrayAttr({1}));
}

void ownResults(const BlockFunction &block) {
  func::FuncOp function = block.function;
  Operation *terminator = function.getBody().front().getTerminator();
  OpBuilder builder(terminator);
  OwnMemory owned;
  for (auto [i, result] : llvm::enumerate(block.results)) {
    Value value = terminator->getOperand(i);
    if (result.activation < 0 && !result.accumulates() && !owned.claim(value))
      terminator->setOperand(i, copyOf(builder, value));
  }
  for (auto [i, result] : llvm::enumerate(block.results))
    if (Value value = terminator->getOperand(i); result.accumulates() && !isOnlyAdded(value))
      terminator->setOperand(i, copyOf(builder, value));
}

// A yielded value goes straight to its place in the tile's result; a summand is added there.
void ownYields(TileOp tile) {
  YieldOp yield = tile.getYield();
  OpBuilder builder(yield);
  OwnMemory owned;
  for (auto [i, value] : llvm::enumerate(yield.getOperands()))
    if (!owned.claim(value) || (tile.isSum(i) && !isOnlyAdded(value)))
      yield.setOperand(i, copyOf(builder, value));
}

// --- Parts of values

// Dense uses take a copy, made before the first of them.
void copyDenseUses(Value part) {
  llvm::MapVector<Value, SmallVector<OpOperand *>> byName;
  for (OpOperand *use : denseUses(part))
    byName[use->get()].push_back(use);
  for (auto &[value, uses] : byName) {
    Operation *first = nullptr;
    for (OpOperand *use : uses)
      if (Operation *op = part.getParentBlock()->findAncestorOpInBlock(*use->getOwner());
          !first || op->isBeforeInBlock(first))
        first = op;
    OpBuilder builder(first);
    Value copy = copyOf(builder, value);
    for (OpOperand *use : uses)
      use->set(copy);
  }
}

// A part that cannot be made where it lies is made elsewhere and copied there.
void copyIntoPlace(JoinOp join) {
  OpBuilder builder(join);
  for (size_t part = 0; part < join.getParts().size(); ++part)
    if (!isMadeInPlace(join, part))
      join->setOperand(part, copyOf(builder, join.getParts()[part]));
}

void copyViews(Block &body) {
  for (PartsOp parts : llvm::to_vector(body.getOps<PartsOp>()))
    llvm::for_each(parts.getParts(), copyDenseUses);
  for (JoinOp join : llvm::to_vector(body.getOps<JoinOp>()))
    copyIntoPlace(join);
}

// --- Kernels

void buildKernel(const RowGroup &group, Value number) {
  llvm::SetVector<Value> yielded;
  llvm::DenseSet<Operation *> inside(group.begin(), group.end());
  for (Operation *op : group)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); }))
        yielded.insert(result);
  OpBuilder builder(group.back());
  auto kernel = KernelOp::create(builder, group.back()->getLoc(), ValueRange(yielded.getArrayRef()).getTypes(), number);
  Block &body = kernel.getBody().emplaceBlock();
  for (Operation *op : group)
    op->moveBefore(&body, body.end());
  for (auto [i, result] : llvm::enumerate(kernel.getResults())) {
    Value value = yielded[i];
    value.replaceUsesWithIf(result, [&](OpOperand &use) { return use.getOwner()->getBlock() != &body; });
  }
  builder.setInsertionPointToEnd(&body);
  YieldOp::create(builder, kernel.getLoc(), yielded.getArrayRef());
}

// A kernel stands where its last op stood; an op that uses it and stood before follows it. Among
// the ready ops the one that stood first comes next; ops that are no kernels keep their order.
class UseOrder {
public:
  explicit UseOrder(Block &body) : body_(body) {
    for (Operation &op : body.without_terminator()) {
      placeOf_[&op] = ops_.size();
      ops_.push_back(&op);
    }
    waits_.resize(ops_.size());
    users_.resize(ops_.size());
    addEdges();
  }

  void apply() {
    std::set<size_t> ready;
    for (size_t place = 0; place < ops_.size(); ++place)
      if (waits_[place].empty())
        ready.insert(place);
    while (!ready.empty()) {
      size_t place = *ready.begin();
      ready.erase(ready.begin());
      ops_[place]->moveBefore(body_.getTerminator());
      for (size_t user : users_[place]) {
        waits_[user].erase(place);
        if (waits_[user].empty())
          ready.insert(user);
      }
    }
  }

private:
  void addEdges() {
    std::optional<size_t> other;
    for (auto [place, op] : llvm::enumerate(ops_)) {
      op->walk([&, to = place](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (auto maker = placeOf_.find(operand.getDefiningOp()); maker != placeOf_.end() && maker->second != to)
            addEdge(maker->second, to);
      });
      if (isa<KernelOp>(op))
        continue;
      if (other)
        addEdge(*other, place);
      other = place;
    }
  }
  void addEdge(size_t from, size_t to) {
    if (waits_[to].insert(from).second)
      users_[from].push_back(to);
  }

  Block &body_;
  std::vector<Operation *> ops_;
  llvm::DenseMap<Operation *, size_t> placeOf_; // before
  std::vector<std::set<size_t>> waits_;         // places of what an op needs and is not placed yet
  std::vector<std::vector<size_t>> users_;
};

std::vector<RowGroup> eachAlone(Block &body) {
  std::vector<RowGroup> groups;
  for (Operation &op : body)
    if (isa<RowOpInterface>(op))
      groups.push_back({&op});
  return groups;
}

// How many rows there are, for each op on rows of experts: a sum of their counts, made once.
FailureOr<RowNumbers> numberRows(Block &block) {
  FailureOr<RowCounts> counts = RowCounts::of(block);
  if (failed(counts))
    return failure();
  RowNumbers numbers;
  llvm::DenseMap<Value, Value> known;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    Value own = isa<RowOpInterface>(op) ? counts->countsOf(&op) : Value();
    if (!own)
      continue;
    Value &number = known[own];
    if (!number) {
      OpBuilder builder(op.getContext());
      builder.setInsertionPointAfterValue(own);
      const auto type =
          RankedTensorType::get({}, elementOf(own), LayoutAttr::get(op.getContext(), ArrayRef<StringAttr>()));
      number = RowCountOp::create(builder, own.getLoc(), type, own);
    }
    numbers[&op] = number;
  }
  return numbers;
}

// Kernels that count rows come last: until then what they make has the name that the others use.
LogicalResult buildKernels(Block &block) {
  FailureOr<RowNumbers> numbers = numberRows(block);
  if (failed(numbers))
    return failure();
  bool alone = block.getParentOp()->getParentOfType<ModuleOp>()->hasAttr(kNoFusionAttr);
  std::vector<RowGroup> groups = alone ? eachAlone(block) : findRowGroups(block, *numbers);
  std::ranges::stable_partition(groups, [](const RowGroup &group) { return !isa<RowCountOp>(group.front()); });
  for (const RowGroup &group : groups)
    buildKernel(group, numbers->lookup(group.front()));
  UseOrder(block).apply();
  orderForOverlap(block);
  return success();
}

struct FusePass : mgc::impl::FuseBase<FusePass> {
  void runOnForm() override {
    ModuleOp module = getOperation();
    auto blocks = Blocks::read(module);
    if (failed(blocks))
      return signalPassFailure();
    for (auto function : module.getOps<func::FuncOp>()) {
      const std::optional<plan::Task> task = taskOf(function);
      if (!task)
        continue;
      Block &body = function.getBody().front();
      eraseDead(body);
      if (auto block = function->getAttrOfType<StringAttr>(kBlockAttr))
        ownResults(*blocks->at(block).functionOf(*task));
      copyViews(body); // a tile's ops may use views densely
      for (TileOp tile : body.getOps<TileOp>()) {
        ownYields(tile);
        copyViews(tile.getBody().front());
        if (failed(buildKernels(tile.getBody().front())))
          return signalPassFailure();
      }
      if (failed(buildKernels(body)))
        return signalPassFailure();
    }
    module->setAttr(kPhaseAttr, StringAttr::get(&getContext(), "fuse"));
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createFusePass() { return std::make_unique<FusePass>(); }
