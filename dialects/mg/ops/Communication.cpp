// Reshard and collectives: verifiers.
#include "dialects/mg/Mg.h"
#include "dialects/mg/Target.h"

using namespace mlir;
using namespace mgc;

LogicalResult ReshardOp::verify() {
  auto from = tensorOf(getValue()), to = tensorOf(getResult());
  LayoutAttr before = layoutOf(from), after = layoutOf(to);
  if (!before || !after || from.getShape() != to.getShape() || from.getElementType() != to.getElementType() ||
      before.getNames() != after.getNames())
    return emitOpError("shape, element type and names must not change (reshard_c1)");
  if (before == after)
    return emitOpError("the layouts are equal (reshard_c2)");
  for (Attribute axis : after.getPending()) {
    bool wasPending = llvm::is_contained(before.getPending(), axis);
    if (!wasPending && isa<DenseI64ArrayAttr>(axis))
      return emitOpError() << "becomes pending over stages; only a sum that was so is (reshard_c3)";
    if (wasPending ? before.getReduction() != after.getReduction() : after.getReduction() != Reduction::sum)
      return emitOpError() << "axis " << axis << " is pending as another reduction than before; reduce it "
                           << "first (reshard_c3)";
  }
  return success();
}

// --- collectives

// `split`: the dimension of which each rank keeps its block; `concat`: the one in which blocks are put together.
using Dimension = std::optional<int64_t>;

static LogicalResult verifyShape(Operation *op, int64_t ranks, Dimension split, Dimension concat) {
  auto value = tensorOf(op->getOperand(0)), result = tensorOf(op->getResult(0));
  for (int64_t d = 0; d < value.getRank(); ++d) {
    int64_t large = value.getDimSize(d), small = result.getDimSize(d);
    if (d == concat)
      std::swap(large, small);
    int64_t factor = d == split || d == concat ? ranks : 1;
    if (large % factor != 0 || large / factor != small)
      return op->emitOpError() << "dimension " << d << " of size " << value.getDimSize(d) << " becomes "
                               << result.getDimSize(d) << "; expected it " << (d == concat ? "multiplied" : "divided")
                               << " by " << factor << " (collective_c3)";
  }
  return success();
}

static LogicalResult verifyCollective(Operation *op, Dimension split = {}, Dimension concat = {}) {
  auto module = op->getParentOfType<ModuleOp>();
  auto mesh = module ? module->getAttrOfType<MeshAttr>(kMeshAttr) : MeshAttr();
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  if (!mesh)
    return op->emitOpError() << "stands in a module without " << kMeshAttr << " (mesh_c4)";
  if (failed(mesh.verifyAxes([&] { return op->emitOpError(); }, axes)))
    return failure();
  auto value = tensorOf(op->getOperand(0)), result = tensorOf(op->getResult(0));
  for (Dimension dim : {split, concat})
    if (dim && (*dim < 0 || *dim >= value.getRank()))
      return op->emitOpError() << "dimension " << *dim << " of a value of rank " << value.getRank()
                               << " (collective_c1)";
  if (split && split == concat)
    return op->emitOpError() << "splits and concatenates dimension " << *split << " (collective_c1)";
  LayoutAttr before = layoutOf(value), after = layoutOf(result);
  if (!before || !after || before.getNames() != after.getNames() || value.getElementType() != result.getElementType())
    return op->emitOpError("the result must have the names and the element type of the value (collective_c2)");
  return verifyShape(op, mesh.sizeOf(axes), split, concat);
}

template <typename Op> static LogicalResult verifyReduction(Op op) {
  if (op.getReduction() == "sum" || op.getReduction() == "max")
    return success();
  return op.emitOpError() << "reduction is '" << op.getReduction() << "'; expected sum or max (collective_c4)";
}

LogicalResult AllReduceOp::verify() { return failed(verifyReduction(*this)) ? failure() : verifyCollective(*this); }
LogicalResult AllGatherOp::verify() { return verifyCollective(*this, {}, getDim()); }
LogicalResult ReduceScatterOp::verify() {
  return failed(verifyReduction(*this)) ? failure() : verifyCollective(*this, getDim());
}
int64_t AllToAllOp::getWorkspaceBytes() {
  if (!plan::packsRows(targetOf(*this)))
    return 0;
  const TensorType value = tensorOf(getValue()), result = tensorOf(getResult());
  const int64_t inner = std::max(getSplit(), getConcat());
  const TensorType chunks = inner == int64_t(getSplit()) ? result : value; // one chunk is one row
  int64_t row = 1;
  for (int64_t extent : chunks.getShape().drop_front(inner))
    row *= extent;
  const int64_t ranks = value.getDimSize(getSplit()) / result.getDimSize(getSplit());
  const int64_t elements = value.getNumElements();
  return row * ranks == elements ? 0 : elements * plan::sizeInBytes(dtypeOf(value.getElementType()));
}
LogicalResult AllToAllOp::verify() { return verifyCollective(*this, getSplit(), getConcat()); }
LogicalResult PermuteOp::verify() { return verifyCollective(*this); }
LogicalResult SliceOp::verify() { return verifyCollective(*this, getDim()); }
LogicalResult DemoteOp::verify() { return verifyCollective(*this); }

// --- collectives: instructions. The buffers are seen as plan::Collective says.

static int64_t sizeBefore(Value value, int64_t dim) {
  return ShapedType::getNumElements(tensorOf(value).getShape().take_front(dim));
}
static int64_t sizeFrom(Value value, int64_t dim) {
  return ShapedType::getNumElements(tensorOf(value).getShape().drop_front(dim));
}

static InstructionCall callOf(Operation *op, plan::Collective collective) {
  const Value value = op->getOperand(0), result = op->getResult(0);
  collective.type = dtypeOf(elementOf(value));
  collective.axes = axesOf(op->getAttrOfType<ArrayAttr>("axes"));
  if (auto stages = op->getAttrOfType<DenseI64ArrayAttr>("stages"))
    collective.stages.assign(stages.asArrayRef().begin(), stages.asArrayRef().end());
  if (auto reduction = op->getAttrOfType<StringAttr>("reduction"))
    collective.reduce = reduction == "max" ? plan::ReduceKind::max : plan::ReduceKind::sum;
  collective.workspaceBytes = workspaceBytes(op);
  return {collective, {value, result}};
}

InstructionCall AllReduceOp::getCall() {
  return callOf(*this, {.kind = plan::Collective::Kind::allReduce, .chunk = tensorOf(getValue()).getNumElements()});
}
InstructionCall PermuteOp::getCall() {
  return callOf(*this, {.kind = plan::Collective::Kind::permute, .chunk = tensorOf(getValue()).getNumElements()});
}
InstructionCall AllGatherOp::getCall() {
  return callOf(*this, {.kind = plan::Collective::Kind::allGather,
                        .outer = sizeBefore(getValue(), getDim()),
                        .chunk = sizeFrom(getValue(), getDim())});
}
InstructionCall ReduceScatterOp::getCall() {
  return callOf(*this, {.kind = plan::Collective::Kind::reduceScatter,
                        .outer = sizeBefore(getResult(), getDim()),
                        .chunk = sizeFrom(getResult(), getDim())});
}

// The side whose outer one of the two dimensions is the whole block of a rank has `blocks`.
InstructionCall AllToAllOp::getCall() {
  const bool splitsInner = getSplit() > getConcat();
  const Value chunks = splitsInner ? getResult() : getValue(), blocks = splitsInner ? getValue() : getResult();
  const auto [first, second] = std::minmax(int64_t(getSplit()), int64_t(getConcat()));
  return callOf(*this, {.kind = plan::Collective::Kind::allToAll,
                        .outer = sizeBefore(blocks, first),
                        .chunk = sizeFrom(chunks, second),
                        .middle = sizeFrom(blocks, first) / sizeFrom(blocks, second),
                        .splitsInner = splitsInner});
}

InstructionCall SliceOp::getCall() {
  return {plan::Move{.kind = plan::Move::Kind::slice,
                     .outer = sizeBefore(getResult(), getDim()),
                     .chunkBytes = sizeFrom(getResult(), getDim()) * bytesOfElement(getResult()),
                     .axes = axesOf(getAxes())},
          {getValue(), getResult()}};
}

InstructionCall DemoteOp::getCall() {
  return {plan::Move{.kind = plan::Move::Kind::demote, .bytes = bytesOf(getType()), .axes = axesOf(getAxes())},
          {getValue(), getResult()}};
}
