// mg-order-rows: the order of rows by expert, for the ops that need it.
//
// before:  %rows = mg.dispatch %x to %experts           %z = mg.grouped_einsum %rows, %w to %experts
// after:   %counts, %places, %sources = mg.group %experts
//          %rows = mg.dispatch %x to %experts order %sources
//          %z = mg.grouped_einsum %rows, %w to %experts order %counts
//
// A function orders the rows of its experts once, where these are made. The order is that of one rank: local programs alone
// have it.
#include "compiler/program/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_ORDERROWS
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

class OrderBuilder {
public:
  explicit OrderBuilder(func::FuncOp function) : function_(function) {}

  void run() {
    function_.walk([&](Operation *op) {
      llvm::TypeSwitch<Operation *>(op)
          .Case<DispatchOp, SpreadOp>([&](auto rows) { give(rows, rows.getCount(), &GroupOp::getSources); })
          .Case<CombineOp, CollectOp>([&](auto rows) { give(rows, rows.getCount(), &GroupOp::getPlaces); })
          .Case(
              [&](GroupedEinsumOp product) { give(product, countIn(product.getRhs()), &GroupOp::getCounts); })
          .Case([&](GroupedEinsumGradOp product) {
            give(product, countIn(product.getResult()), &GroupOp::getCounts);
          });
    });
  }

private:
  static int64_t countIn(Value matrices) { return tensorOf(matrices).getDimSize(0); }

  template <typename Op, typename Result> void give(Op op, int64_t count, Result result) {
    if (!op.getOrder())
      op.getOrderMutable().assign((orderOf(op.getExperts(), count).*result)());
  }

  GroupOp orderOf(Value experts, int64_t count) {
    GroupOp &known = orders_[{experts, count}];
    if (known)
      return known;
    OpBuilder builder(function_.getContext());
    builder.setInsertionPointAfterValue(experts);
    const auto type = cast<RankedTensorType>(experts.getType());
    const auto list = [&](StringRef name, int64_t size) {
      const LayoutAttr layout = LayoutAttr::get(builder.getContext(), ArrayRef<StringRef>(name));
      return RankedTensorType::get({size}, type.getElementType(), layout);
    };
    return known = GroupOp::create(builder, experts.getLoc(), list("e", count), type,
                                   list("c", type.getNumElements()), experts);
  }

  func::FuncOp function_;
  llvm::DenseMap<std::pair<Value, int64_t>, GroupOp> orders_;
};

struct OrderRowsPass : mgc::impl::OrderRowsBase<OrderRowsPass> {
  void runOnOperation() override {
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      OrderBuilder(function).run();
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createOrderRowsPass() { return std::make_unique<OrderRowsPass>(); }
