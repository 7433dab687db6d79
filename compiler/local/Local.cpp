// mg-local: local shapes and explicit collectives.
//
// before:  %1 = mg.reshard %0 : tensor<16x2x32xf32, #mg.layout<s [tp], b, h>> -> tensor<16x2x32xf32,
// #mg.layout<s, b, h>> after:   %1 = mg.all_gather %0 over ["tp"] {dim = 0} : tensor<8x2x32xf32,
// #mg.layout<s, b, h>> -> tensor<16x2x32xf32, ..>
//
// Ops carry no sizes, so going local is retyping. Arguments and results keep their sharded type as mg.type. Before mg-stage
// these are the functions of blocks, behind it those of the step: functions that are local already stay as they are.
#include "compiler/program/Blocks.h"
#include "compiler/program/Passes.h"
#include "compiler/shard/Reshard.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_LOCAL
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

class FunctionLocalizer {
public:
  FunctionLocalizer(func::FuncOp function, MeshAttr mesh)
      : function_(function), mesh_(mesh), builder_(function.getContext()) {}

  LogicalResult run() {
    Block &body = function_.getBody().front();
    if (failed(verifyTypes(body)))
      return failure();
    recordTypes();
    for (Operation &op : body) { // before any value loses its axes
      const std::optional<int64_t> capacity = capacityOfRank(&op);
      recordCoordinates(&op);
      recordRing(&op);
      recordExchange(&op);
      if (capacity)
        op.setAttr(kCapacityAttr, builder_.getI64IntegerAttr(*capacity));
    }
    // With the layout of each operand, which lowering an earlier reshard may change.
    SmallVector<std::pair<ReshardOp, LayoutAttr>> reshards;
    for (ReshardOp reshard : body.getOps<ReshardOp>())
      reshards.push_back({reshard, layoutOf(reshard.getValue())});
    for (auto [reshard, from] : reshards)
      lower(reshard, from);
    for (BlockArgument argument : body.getArguments())
      argument.setType(localType(tensorOf(argument)));
    for (Operation &op : body)
      for (Value result : op.getResults())
        if (!local_.contains(&op))
          result.setType(localType(tensorOf(result)));
    function_.setType(FunctionType::get(function_.getContext(), llvm::to_vector(body.getArgumentTypes()),
                                        llvm::to_vector(body.getTerminator()->getOperandTypes())));
    return success();
  }

private:
  LogicalResult verifyTypes(Block &body) {
    for (Type type : body.getArgumentTypes())
      if (failed(mesh_.verifyType([&] { return function_.emitError(); }, type)))
        return failure();
    for (Operation &op : body)
      for (Type type : op.getResultTypes())
        if (failed(mesh_.verifyType([&] { return op.emitOpError(); }, type)))
          return failure();
    return success();
  }

  RankedTensorType localType(RankedTensorType type) { return localType(type, layoutOf(type)); }
  RankedTensorType localType(RankedTensorType type, LayoutAttr layout) {
    SmallVector<int64_t> shape;
    for (auto [size, axes] : llvm::zip(type.getShape(), layout.getAxes()))
      shape.push_back(size / mesh_.sizeOf(axes));
    return RankedTensorType::get(shape, type.getElementType(), LayoutAttr::get(type.getContext(), layout.getNames()));
  }

  void recordTypes() {
    for (auto [i, type] : llvm::enumerate(function_.getArgumentTypes()))
      function_.setArgAttr(i, kTypeAttr, TypeAttr::get(type));
    for (auto [i, type] : llvm::enumerate(function_.getResultTypes()))
      function_.setResultAttr(i, kTypeAttr, TypeAttr::get(type));
  }

  // Records the axes that split the factors whose global index the op reads.
  void recordCoordinates(Operation *op) {
    auto compute = dyn_cast<ComputeOpInterface>(op);
    if (!compute)
      return;
    SmallVector<NamedAttribute> coordinates;
    for (StringAttr factor : compute.getIndexedFactors())
      if (ArrayAttr axes = factsOf(op, factor).axes; axes && !axes.empty())
        coordinates.push_back(builder_.getNamedAttr(factor.getValue(), axes));
    if (!coordinates.empty())
      op->setAttr("coordinates", builder_.getDictionaryAttr(coordinates));
  }

  // The ranks around which the keys of attention travel (Ring.cpp).
  void recordRing(Operation *op) {
    if (!isa<AttentionOp, AttentionGradOp>(op))
      return;
    constexpr unsigned key = 1;
    if (ArrayAttr axes = layoutOf(op->getOperand(key)).getAxes().front(); !axes.empty())
      op->setAttr("ring", axes);
  }

  // The ranks among which rows go to their experts (OrderRows.cpp).
  void recordExchange(Operation *op) {
    auto compute = dyn_cast<ComputeOpInterface>(op);
    if (!compute || compute.getAxisRule().merged.empty())
      return;
    if (ArrayAttr axes = exchangedAxes(op); !axes.empty())
      op->setAttr(kExchangeAttr, axes);
  }

  void lower(ReshardOp reshard, LayoutAttr from) {
    builder_.setInsertionPoint(reshard);
    RankedTensorType global = reshard.getResult().getType();
    Value value = reshard.getValue();
    for (const ReshardStep &step : planReshard(from, layoutOf(global))) {
      value = create(reshard.getLoc(), step, localType(global, step.result), value, from.getReduction());
      local_.insert(value.getDefiningOp());
    }
    reshard.replaceAllUsesWith(value);
    reshard.erase();
  }

  Value create(Location loc, const ReshardStep &step, Type type, Value value, Reduction reduction) {
    StringRef kind = reduction == Reduction::sum ? "sum" : "max";
    switch (step.kind) {
    case ReshardKind::slice:
      return SliceOp::create(builder_, loc, type, value, step.axes, step.dim);
    case ReshardKind::reduceScatter:
      return ReduceScatterOp::create(builder_, loc, type, value, step.axes, step.dim, kind);
    case ReshardKind::allToAll:
      return AllToAllOp::create(builder_, loc, type, value, step.axes, step.dim, step.from);
    case ReshardKind::allReduce: {
      auto reduce = AllReduceOp::create(builder_, loc, type, value, step.axes, kind);
      if (step.stages)
        reduce->setAttr("stages", step.stages);
      return reduce;
    }
    case ReshardKind::allGather:
      return AllGatherOp::create(builder_, loc, type, value, step.axes, step.dim);
    case ReshardKind::demote:
      return DemoteOp::create(builder_, loc, type, value, step.axes);
    }
    llvm_unreachable("covered switch");
  }

  func::FuncOp function_;
  MeshAttr mesh_;
  OpBuilder builder_;
  llvm::DenseSet<Operation *> local_; // already of local type
};

struct LocalPass : mgc::impl::LocalBase<LocalPass> {
  void runOnForm() override {
    ModuleOp module = getOperation();
    FailureOr<MeshAttr> mesh = requireMesh(module);
    if (failed(mesh))
      return signalPassFailure();
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(kPassAttr) && !isLocal(function) && failed(FunctionLocalizer(function, *mesh).run()))
        return signalPassFailure();
    const bool hasStages = !module.getOps<StageOp>().empty();
    module->setAttr(kPhaseAttr, StringAttr::get(&getContext(), hasStages ? "step" : "local"));
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createLocalPass() { return std::make_unique<LocalPass>(); }
