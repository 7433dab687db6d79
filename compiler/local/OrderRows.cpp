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
#include "llvm/ADT/TypeSwitch.h"

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
    SmallVector<Operation *> ops;
    function_.walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops) {
      if (failed(verifyCount(op)))
        return failure();
      llvm::TypeSwitch<Operation *>(op)
          .Case<DispatchOp, SpreadOp, RowMaskOp>([&](auto rows) { orderByExpert(rows); })
          .Case<CombineOp, CollectOp>([&](auto rows) { orderByToken(rows); })
          .Case([&](GroupedEinsumOp product) { count(product, product.getRhs()); })
          .Case([&](GroupedEinsumGradOp product) { count(product, product.getResult()); });
    }
    return success();
  }

private:
  // --- Ops

  template <typename Op> void orderByExpert(Op op) {
    if (op.getOrder())
      return;
    op.getOrderMutable().assign(orderOf(op.getExperts(), shareOf(op), op.getCapacityAttr()).getSources());
    if (ArrayAttr axes = op.getExchangeAttr()) {
      makeOwn(op);
      Value rows = op.getResult();
      const Type wanted = rows.getType();
      rows.setType(withRows(rows, op));
      OpBuilder builder(function_.getContext());
      builder.setInsertionPointAfter(op);
      auto exchange = ExchangeOp::create(
          builder, op.getLoc(), wanted, rows,
          allCounts(op.getExperts(), op.getCount(), axes, op.getCapacityAttr()), axes, false);
      rows.replaceAllUsesExcept(exchange.getResult(), exchange);
    }
  }

  template <typename Op> void orderByToken(Op op) {
    if (op.getOrder())
      return;
    op.getOrderMutable().assign(orderOf(op.getExperts(), shareOf(op), op.getCapacityAttr()).getPlaces());
    if (ArrayAttr axes = op.getExchangeAttr()) {
      makeOwn(op);
      OpBuilder builder(op);
      Value rows = op.getValue();
      op.getValueMutable().assign(ExchangeOp::create(
          builder, op.getLoc(), withRows(rows, op), rows,
          allCounts(op.getExperts(), op.getCount(), axes, op.getCapacityAttr()), axes, true));
    }
  }

  template <typename Op> void count(Op op, Value matrices) {
    if (op.getOrder())
      return;
    const int64_t own = tensorOf(matrices).getDimSize(0);
    if (ArrayAttr axes = op.getExchangeAttr())
      op.getOrderMutable().assign(
          ownCounts(op.getExperts(), own * mesh_.sizeOf(axes), axes, op.getCapacityAttr()));
    else
      op.getOrderMutable().assign(
          orderOf(op.getExperts(), {own, axesOf(op)}, op.getCapacityAttr()).getCounts());
  }

  // The rows of a rank's own tokens, of all experts.
  static void makeOwn(Operation *op) { op->removeAttr("coordinates"), op->removeAttr(kExchangeAttr); }
  template <typename Op> static RankedTensorType withRows(Value rows, Op op) {
    const RankedTensorType type = tensorOf(rows);
    SmallVector<int64_t> shape(type.getShape());
    shape.front() = roomOf(op.getExperts(), op.getCount(), op.getCapacity());
    return RankedTensorType::get(shape, type.getElementType(), type.getEncoding());
  }

  static int64_t roomOf(Value experts, int64_t count, std::optional<int64_t> capacity) {
    return roomForRows(tensorOf(experts).getShape(), count, 1, capacity);
  }

  // Ops on rows of the same experts agree on how many there are.
  LogicalResult verifyCount(Operation *op) {
    auto compute = dyn_cast<ComputeOpInterface>(op);
    if (!compute || compute.getAxisRule().merged.empty())
      return success();
    Value experts = llvm::TypeSwitch<Operation *, Value>(op)
                        .Case<DispatchOp, CombineOp, SpreadOp, CollectOp, RowMaskOp, GroupedEinsumOp,
                              GroupedEinsumGradOp>([](auto rows) { return rows.getExperts(); });
    const int64_t all = factsOf(op, placingFactor(op).front()).size * mesh_.sizeOf(axesOf(op));
    if (auto [known, isNew] = totals_.try_emplace(experts, all); !isNew && known->second != all)
      return op->emitOpError() << "has rows of " << all << " experts, an op before it on the same of "
                               << known->second << "; expected one number of them";
    return success();
  }

  // --- Experts

  ArrayAttr none() { return ArrayAttr::get(function_.getContext(), {}); }
  ArrayAttr axesOf(Operation *op) {
    auto coordinates = op->getAttrOfType<DictionaryAttr>("coordinates");
    auto axes = coordinates ? coordinates.getAs<ArrayAttr>(placingFactor(op).front()) : ArrayAttr();
    return axes ? axes : none();
  }
  // The experts by which the op groups rows: all, where it exchanges them, as each rank groups those of its own tokens.
  template <typename Op> Share shareOf(Op op) {
    ArrayAttr axes = op.getExchangeAttr() ? none() : axesOf(op);
    return {static_cast<int64_t>(op.getCount()) / mesh_.sizeOf(axes), axes};
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
                                   listOf("c", roomOf(experts, share.count, valueOf(capacity)), experts),
                                   experts, share.axes, capacity);
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
      known =
          ReduceScatterOp::create(builder, experts.getLoc(), listOf("e", count / mesh_.sizeOf(axes), experts),
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
  void runOnOperation() override {
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
