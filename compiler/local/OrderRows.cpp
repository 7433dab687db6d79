// mg-order-rows: the order of rows by expert, for the ops that need it.
//
// before:  %rows = mg.dispatch %x to %experts           %z = mg.grouped_einsum %rows, %w to %experts
// after:   %counts, %places, %sources = mg.group %experts over ["ep"]
//          %rows = mg.dispatch %x to %experts order %sources
//          %z = mg.grouped_einsum %rows, %w to %experts order %counts
//
// A function orders the rows of its experts once, where these are made. The order is that of one rank and of the experts that it
// has: local programs alone have it.
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

  void run() {
    function_.walk([&](Operation *op) {
      llvm::TypeSwitch<Operation *>(op)
          .Case<DispatchOp, SpreadOp>([&](auto rows) { give(rows, shareOf(rows), &GroupOp::getSources); })
          .Case<CombineOp, CollectOp>([&](auto rows) { give(rows, shareOf(rows), &GroupOp::getPlaces); })
          .Case([&](GroupedEinsumOp product) {
            give(product, shareOf(product, product.getRhs()), &GroupOp::getCounts);
          })
          .Case([&](GroupedEinsumGradOp product) {
            give(product, shareOf(product, product.getResult()), &GroupOp::getCounts);
          });
    });
  }

private:
  static ArrayAttr axesOf(Operation *op) {
    auto coordinates = op->getAttrOfType<DictionaryAttr>("coordinates");
    auto axes = coordinates ? coordinates.getAs<ArrayAttr>(placingFactor(op).front()) : ArrayAttr();
    return axes ? axes : ArrayAttr::get(op->getContext(), {});
  }
  template <typename Op> Share shareOf(Op rows) {
    ArrayAttr axes = axesOf(rows);
    return {static_cast<int64_t>(rows.getCount()) / mesh_.sizeOf(axes), axes};
  }
  static Share shareOf(Operation *product, Value matrices) {
    return {tensorOf(matrices).getDimSize(0), axesOf(product)};
  }

  template <typename Op, typename Result> void give(Op op, const Share &share, Result result) {
    if (!op.getOrder())
      op.getOrderMutable().assign((orderOf(op.getExperts(), share).*result)());
  }

  GroupOp orderOf(Value experts, const Share &share) {
    GroupOp &known = orders_[{experts, {share.count, share.axes}}];
    if (known)
      return known;
    OpBuilder builder(function_.getContext());
    builder.setInsertionPointAfterValue(experts);
    const auto type = cast<RankedTensorType>(experts.getType());
    const auto list = [&](StringRef name, int64_t size) {
      const LayoutAttr layout = LayoutAttr::get(builder.getContext(), ArrayRef<StringRef>(name));
      return RankedTensorType::get({size}, type.getElementType(), layout);
    };
    return known = GroupOp::create(builder, experts.getLoc(), list("e", share.count), type,
                                   list("c", roomForRows(type.getShape(), share.count, 1)), experts,
                                   share.axes);
  }

  func::FuncOp function_;
  MeshAttr mesh_;
  llvm::DenseMap<std::pair<Value, std::pair<int64_t, ArrayAttr>>, GroupOp> orders_;
};

struct OrderRowsPass : mgc::impl::OrderRowsBase<OrderRowsPass> {
  void runOnOperation() override {
    FailureOr<MeshAttr> mesh = requireMesh(getOperation());
    if (failed(mesh))
      return signalPassFailure();
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      OrderBuilder(function, *mesh).run();
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createOrderRowsPass() { return std::make_unique<OrderRowsPass>(); }
