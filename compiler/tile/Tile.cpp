// mg-tile: the logits never exist as a whole.
//
// before:  %1 = mg.einsum %x, %w   %2 = mg.max %1  ..  %5 = mg.cross_entropy_grad %1, ..
//          %6 = mg.einsum %5, %w   %7 = mg.einsum %x, %5   return %6, %7
// after:   %1:2 = mg.tile 4 of %x, %labels, .. {
//          ^bb0(%xi, ..):
//            %2 = mg.einsum %xi, %w  ..  mg.yield %7, %8
//          }
//          return %1#0, %1#1
//
// The tile gets the logits and their gradient (OfLogits), the ops that make and use these values, and all ops on a path from
// one of these ops to another. An op that only depends on those ops moves behind the tile.
#include "compiler/program/Blocks.h"
#include "compiler/program/Passes.h"
#include "dialects/mg/Tiling.h"
#include "runtime/base/Rounding.h"

#include "llvm/ADT/SetVector.h"

#include <set>

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_TILE
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

using State = TileFlow::State;

constexpr int64_t kMostParts = 1024; // each has its own instructions in the plan

class LossTiler {
public:
  LossTiler(func::FuncOp function, int64_t tokens) : body_(function.getBody().front()), tokens_(tokens) {}

  // All that there are; 0: there are no logits.
  int64_t tokens() {
    const SmallVector<Value> logits = findLogits();
    return logits.empty() ? 0 : ShapedType::getNumElements(tensorOf(logits.front()).getShape().drop_back());
  }

  // Into how many parts run() divides.
  int64_t parts() {
    SmallVector<Value> logits = findLogits();
    return !logits.empty() && chooseParts(logits.front()) ? count_ : 1;
  }

  void run() {
    SmallVector<Value> logits = findLogits();
    if (logits.empty() || !chooseParts(logits.front()))
      return;
    collect(logits);
    if (llvm::all_of(ops_, [&](Operation *op) { return flow_->add(op); }))
      build();
  }

private:
  // Logits that an op of the function makes and no function takes, and their gradients.
  SmallVector<Value> findLogits() {
    llvm::SetVector<Value> logits;
    for (Operation &op : body_.without_terminator())
      if (op.hasTrait<OfLogits>())
        for (Value value : {op.getOperand(0), Value(op.getResult(0))})
          if (value.getDefiningOp() && !llvm::is_contained(body_.getTerminator()->getOperands(), value))
            logits.insert(value);
    return logits.takeVector();
  }

  // The fewest equal parts of the first dimension with at most tokens_ tokens each; all dimensions but the last are
  // tokens, or kMostParts. Where that makes parts of less than a quarter, in which matrix products are slow, the next
  // larger ones. False: one part does.
  bool chooseParts(Value value) {
    ArrayRef<int64_t> shape = tensorOf(value).getShape();
    if (shape.size() < 2)
      return false;
    int64_t perPosition = 1;
    for (int64_t size : shape.drop_front().drop_back())
      perPosition *= size;
    int64_t least = divideUp(shape.front(), kMostParts);
    int64_t most = std::clamp(tokens_ / perPosition, least, shape.front()), extent = most;
    while (shape.front() % extent != 0)
      --extent;
    if (extent < least || 4 * extent < most)
      for (extent = most; shape.front() % extent != 0;)
        ++extent;
    count_ = shape.front() / extent;
    flow_.emplace(layoutOf(value).getNames().front());
    return count_ > 1;
  }

  void collect(ArrayRef<Value> logits) {
    llvm::DenseSet<Operation *> core;
    for (Value value : logits) {
      core.insert(value.getDefiningOp());
      core.insert(value.getUsers().begin(), value.getUsers().end());
    }
    auto reach = [&](auto ops, auto neighbours) {
      llvm::DenseSet<Operation *> reached(core);
      for (Operation &op : ops)
        if (llvm::any_of(neighbours(op), [&](Operation *other) { return reached.contains(other); }))
          reached.insert(&op);
      return reached;
    };
    auto makers = [](Operation &op) {
      return llvm::map_range(op.getOperands(), [](Value value) { return value.getDefiningOp(); });
    };
    auto users = [](Operation &op) { return op.getUsers(); };
    behind_ = reach(llvm::make_range(body_.begin(), body_.end()), makers);
    auto before = reach(llvm::reverse(body_), users);
    for (Operation &op : body_.without_terminator())
      if (behind_.contains(&op) && before.contains(&op))
        ops_.insert(&op);
  }

  Type partOf(Value value) {
    RankedTensorType type = tensorOf(value);
    SmallVector<int64_t> shape(type.getShape());
    shape.front() /= count_;
    return RankedTensorType::get(shape, type.getElementType(), type.getEncoding());
  }
  bool isPart(Value value) { return flow_->stateOf(value) == State::part; }
  bool isInside(Operation *op) { return op && ops_.contains(op); }

  void build() {
    llvm::SetVector<Value> cut, leaving;
    for (Operation *op : ops_) {
      for (Value operand : op->getOperands())
        if (!isInside(operand.getDefiningOp()) && isPart(operand))
          cut.insert(operand);
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !isInside(user); }))
          leaving.insert(result);
    }
    OpBuilder builder(ops_.back());
    auto tile = TileOp::create(builder, ops_.back()->getLoc(), ValueRange(leaving.getArrayRef()).getTypes(), count_,
                               cut.getArrayRef());
    moveBehind(tile);
    fill(tile, cut.getArrayRef(), leaving.getArrayRef());
  }

  // Ops that depend on the tile stand between the tile's ops or behind them: all of them go behind.
  void moveBehind(TileOp tile) {
    Operation *last = tile;
    for (Operation &op : llvm::make_early_inc_range(llvm::make_range(body_.begin(), tile->getIterator())))
      if (behind_.contains(&op) && !isInside(&op)) {
        op.moveAfter(last);
        last = &op;
      }
  }

  void fill(TileOp tile, ArrayRef<Value> cut, ArrayRef<Value> leaving) {
    Block &inner = tile.getBody().emplaceBlock();
    SmallVector<Value> yielded(leaving);
    for (auto [value, result] : llvm::zip(leaving, tile.getResults()))
      Value(value).replaceUsesWithIf(result, [&](OpOperand &use) { return !isInside(use.getOwner()); });
    for (Operation *op : ops_)
      op->moveBefore(&inner, inner.end());
    for (Value value : cut) {
      Value part = inner.addArgument(partOf(value), tile.getLoc());
      value.replaceUsesWithIf(part, [&](OpOperand &use) { return isInside(use.getOwner()); });
    }
    for (Operation *op : ops_)
      for (Value result : op->getResults())
        if (isPart(result))
          result.setType(cast<RankedTensorType>(partOf(result)));
    OpBuilder builder = OpBuilder::atBlockEnd(&inner);
    YieldOp::create(builder, tile.getLoc(), yielded);
  }

  Block &body_;
  int64_t tokens_, count_ = 1;
  std::optional<TileFlow> flow_;
  llvm::SetVector<Operation *> ops_;
  llvm::DenseSet<Operation *> behind_; // depends on an op of the tile, or is one
};

// All tokens at once, and parts of those that loss_tile has at once: among these --memory chooses.
constexpr int64_t kVariantShares[] = {2, 4, 8};

struct TilePass : mgc::impl::TileBase<TilePass> {
  static void tile(func::FuncOp function, int64_t tokens) {
    if (tokens > 0)
      LossTiler(function, tokens).run();
  }

  // A variant of the block for each number of parts that another number of tokens makes.
  static void addVariants(const ModelBlock &block, const BlockFunction &loss, const TrainingSettings &training) {
    const int64_t all = LossTiler(loss.function, 0).tokens();
    const int64_t most = training.lossTile > 0 ? std::min(training.lossTile, all) : all;
    SmallVector<int64_t> choices = {0};
    for (int64_t share : kVariantShares)
      if (most / share > 0)
        choices.push_back(most / share);
    const auto partsOf = [&](int64_t tokens) { return tokens > 0 ? LossTiler(loss.function, tokens).parts() : 1; };
    std::set<int64_t> known = {partsOf(training.lossTile)};
    for (int64_t tokens : choices)
      if (known.insert(partsOf(tokens)).second)
        addVariant(block, tokens);
  }

  static void addVariant(const ModelBlock &block, int64_t tokens) {
    const std::string name = fmt::format("{}.tile{}", block.name, tokens);
    for (const BlockFunction *own : block.functions()) {
      func::FuncOp of = own->function;
      OpBuilder builder(of);
      auto function = cast<func::FuncOp>(builder.clone(*of));
      function.setName(functionName(name, *taskOf(of)));
      function->setAttr(kBlockAttr, builder.getStringAttr(name));
      function->setAttr(kVariantAttr, builder.getStringAttr(block.name));
      function->setAttr(kPolicyAttr, builder.getStringAttr(fmt::format("loss-tile {}", tokens)));
      if (own == block.lossFunction())
        tile(function, tokens);
    }
  }

  void runOnForm() override {
    ModuleOp module = getOperation();
    auto blocks = Blocks::read(module);
    if (failed(blocks))
      return signalPassFailure();
    const TrainingSettings &training = trainingOf(module);
    for (const auto &[name, block] : *blocks)
      if (const BlockFunction *loss = block.lossFunction()) {
        if (training.choosesLossTile && blocks->variantsOf(block).size() == 1) // a layer with a loss chooses its policy
          addVariants(block, *loss, training);
        tile(loss->function, training.lossTile);
      }
    module->setAttr(kPhaseAttr, StringAttr::get(&getContext(), "tile"));
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createTilePass() { return std::make_unique<TilePass>(); }
