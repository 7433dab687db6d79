// mg-order-rows: the order of rows by expert, for the ops that need it.
//
// before:  %rows = mg.dispatch %x to %experts           %z = mg.grouped_einsum %rows, %w to %experts
// after:   %counts, %places, %sources = mg.group %experts over ["ep"]
//          %rows = mg.dispatch %x to %experts order %sources
//          %z = mg.grouped_einsum %rows, %w to %experts order %counts
//
// A function orders the rows of its experts once, where these are made. The order is that of one rank and of the experts that it
// has: local programs alone have it.
//
// Exchange: where the ranks that share out the experts have other tokens each, a rank orders the rows of its own, of all
// experts, and exchanges them:
//
// after:   %counts, %places, %sources = mg.group %experts over []
//          %all = mg.all_gather %counts over ["ep"]                  %own = mg.reduce_scatter %counts over ["ep"]
//          %rows = mg.exchange (mg.dispatch %x to %experts order %sources) by %all over ["ep"]
//          %z = mg.grouped_einsum %rows, %w to %experts order %own
//          %y = mg.combine (mg.exchange %z by %all over ["ep"] back) to %experts order %places
#include "compiler/program/Blocks.h"
#include "compiler/program/Passes.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_ORDERROWS
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

// The experts of a rank: their number, and the axes that share out all.
struct Share {
  int64_t count;
  ArrayAttr axes;
};

class OrderBuilder {
public:
  OrderBuilder(func::FuncOp function, MeshAttr mesh) : function_(function), mesh_(mesh) {}

  LogicalResult run() {
    SmallVector<ExpertRowsOpInterface> ops;
    function_.walk([&](ExpertRowsOpInterface op) { ops.push_back(op); });
    for (ExpertRowsOpInterface op : ops) {
      FailureOr<int64_t> count = countOf(op);
      if (failed(count))
        return failure();
      if (!op.getOrder())
        order(op, *count);
    }
    return success();
  }

private:
  // --- Ops

  // `count`: how many experts there are on all ranks.
  void order(ExpertRowsOpInterface op, int64_t count) {
    const ArrayAttr exchanged = op.getExchangeAttr();
    const IntegerAttr capacity = op.getCapacityAttr();
    if (exchanged && op.getRowOrder() == RowOrder::counts)
      return op.setOrder(ownCounts(op.getExperts(), count, exchanged, capacity));
    // All, where rows are exchanged: each rank orders those of its own tokens.
    const ArrayAttr axes = exchanged ? none() : axesOf(op);
    GroupOp group = orderOf(op.getExperts(), {count / mesh_.sizeOf(axes), axes}, capacity);
    op.setOrder(group->getResult(int(op.getRowOrder())));
    if (exchanged)
      exchange(op, count);
  }

  // Makes rows of the op those of the rank's own tokens, of all experts.
  void exchange(ExpertRowsOpInterface op, int64_t count) {
    const ArrayAttr axes = op.getExchangeAttr();
    const bool isBack = op.getRowOrder() == RowOrder::places;
    op->removeAttr("coordinates"), op->removeAttr(kExchangeAttr);
    Value rows = op.getRows().front();
    const RankedTensorType type = tensorOf(rows);
    SmallVector<int64_t> shape(type.getShape());
    shape.front() = roomOf(op.getExperts(), {count, none()}, valueOf(op.getCapacityAttr()));
    const auto own = RankedTensorType::get(shape, type.getElementType(), type.getEncoding());
    Value counts = allCounts(op.getExperts(), count, axes, op.getCapacityAttr());
    OpBuilder builder(op);
    if (isBack) {
      Value back = ExchangeOp::create(builder, op.getLoc(), own, rows, counts, axes, true);
      return op->replaceUsesOfWith(rows, back);
    }
    rows.setType(own);
    builder.setInsertionPointAfter(op);
    auto there = ExchangeOp::create(builder, op.getLoc(), type, rows, counts, axes, false);
    rows.replaceAllUsesExcept(there.getResult(), there);
  }

  int64_t roomOf(Value experts, const Share &share, std::optional<int64_t> capacity) {
    const int64_t room = roomForRows(tensorOf(experts).getShape(), share.count, 1, capacity);
    return roomByMean(function_, room, tensorOf(experts).getNumElements(), mesh_.sizeOf(share.axes));
  }

  // How many experts there are on all ranks: ops on rows of the same agree on it.
  FailureOr<int64_t> countOf(ExpertRowsOpInterface op) {
    const int64_t all = factsOf(op, placingFactor(op).front()).size * mesh_.sizeOf(axesOf(op));
    if (auto [known, isNew] = totals_.try_emplace(op.getExperts(), all); !isNew && known->second != all)
      return op->emitOpError() << "has rows of " << all << " experts, an op before it on the same of " << known->second
                               << "; expected one number of them";
    return all;
  }

  // --- Experts

  ArrayAttr none() { return ArrayAttr::get(function_.getContext(), {}); }
  ArrayAttr axesOf(Operation *op) {
    auto coordinates = op->getAttrOfType<DictionaryAttr>("coordinates");
    auto axes = coordinates ? coordinates.getAs<ArrayAttr>(placingFactor(op).front()) : ArrayAttr();
    return axes ? axes : none();
  }
  static std::optional<int64_t> valueOf(IntegerAttr number) {
    return number ? std::optional(number.getInt()) : std::nullopt;
  }
  static RankedTensorType listOf(StringRef name, int64_t size, Value experts) {
    const LayoutAttr layout = LayoutAttr::get(experts.getContext(), ArrayRef<StringRef>(name));
    return RankedTensorType::get({size}, elementOf(experts), layout);
  }

  GroupOp orderOf(Value experts, const Share &share, IntegerAttr capacity) {
    GroupOp &known = orders_[{experts, {share.count, share.axes}}];
    if (known)
      return known;
    OpBuilder builder(function_.getContext());
    builder.setInsertionPointAfterValue(experts);
    const auto type = cast<RankedTensorType>(experts.getType());
    return known = GroupOp::create(builder, experts.getLoc(), listOf("e", share.count, experts), type,
                                   listOf("c", roomOf(experts, share, valueOf(capacity)), experts), experts, share.axes,
                                   capacity);
  }

  // How many rows the ranks along the axes have for each expert, one rank after another.
  Value allCounts(Value experts, int64_t count, ArrayAttr axes, IntegerAttr capacity) {
    Value &known = counts_[{experts, axes}].all;
    if (!known) {
      GroupOp order = orderOf(experts, {count, none()}, capacity);
      OpBuilder builder(function_.getContext());
      builder.setInsertionPointAfter(order);
      known = AllGatherOp::create(builder, experts.getLoc(), listOf("e", count * mesh_.sizeOf(axes), experts),
                                  order.getCounts(), axes, 0);
    }
    return known;
  }
  // How many rows the rank's experts have, from all ranks along the axes.
  Value ownCounts(Value experts, int64_t count, ArrayAttr axes, IntegerAttr capacity) {
    Value &known = counts_[{experts, axes}].own;
    if (!known) {
      GroupOp order = orderOf(experts, {count, none()}, capacity);
      OpBuilder builder(function_.getContext());
      builder.setInsertionPointAfter(order);
      known = ReduceScatterOp::create(builder, experts.getLoc(), listOf("e", count / mesh_.sizeOf(axes), experts),
                                      order.getCounts(), axes, 0, "sum");
    }
    return known;
  }

  struct Counts {
    Value all, own;
  };
  func::FuncOp function_;
  MeshAttr mesh_;
  llvm::DenseMap<std::pair<Value, std::pair<int64_t, ArrayAttr>>, GroupOp> orders_;
  llvm::DenseMap<std::pair<Value, ArrayAttr>, Counts> counts_;
  llvm::DenseMap<Value, int64_t> totals_; // experts of all ranks
};

struct OrderRowsPass : mgc::impl::OrderRowsBase<OrderRowsPass> {
  void runOnForm() override {
    FailureOr<MeshAttr> mesh = requireMesh(getOperation());
    if (failed(mesh))
      return signalPassFailure();
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      if (failed(OrderBuilder(function, *mesh).run()))
        return signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createOrderRowsPass() { return std::make_unique<OrderRowsPass>(); }
