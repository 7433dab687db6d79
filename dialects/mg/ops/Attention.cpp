// Rotary positions and attention: verifiers, gradients, costs, lowering.
#include "runtime/kernels/Attention.h"
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"
#include "dialects/mg/View.h"
#include "runtime/base/Philox.h"
#include "runtime/plan/Work.h"

using namespace mlir;
using namespace mgc;

LogicalResult RopeOp::verify() {
  int64_t size = tensorOf(getX()).getShape().back();
  return int64_t(getFrequencies().size()) * 2 == size
             ? success()
             : emitOpError() << getFrequencies().size() << " frequencies for a last dimension of " << size
                             << "; expected half of it (rope_c1)";
}

LogicalResult RopeOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<RopeOp>(getX(), dy, getPositions(), getFrequenciesAttr(),
                                        getInverse() ? UnitAttr() : g.builder().getUnitAttr()));
  return success();
}

LogicalResult AttentionOp::verify() {
  bool drops = getDropout().convertToDouble() > 0;
  return drops == bool(getSamples())
             ? success()
             : emitOpError("samples are given exactly when dropout > 0 (attention_c1)");
}

LogicalResult AttentionOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getO());
  if (!dy)
    return success();
  auto grad = AttentionGradOp::create(
      g.builder(), g.loc(), TypeRange{getQ().getType(), getK().getType(), getV().getType()}, getQ(), getK(),
      getV(), getO(), getLse(), dy, getPositions(), getKeyPositions(), getSamples(), getScaleAttr(),
      getWindowAttr(), getDropoutAttr(), getSiteAttr(), getQueriesPerGroupAttr(), DictionaryAttr());
  g.contribute(getQ(), grad.getDq());
  g.contribute(getK(), grad.getDk());
  g.contribute(getV(), grad.getDv());
  return success();
}

static SmallVector<StringAttr> headFactors(Value q) {
  auto names = layoutOf(q).getNames();
  return {names[2], names[3]};
}
SmallVector<StringAttr> AttentionOp::getIndexedFactors() { return headFactors(getQ()); }
SmallVector<StringAttr> AttentionGradOp::getIndexedFactors() { return headFactors(getQ()); }

// --- attention: library call
// ------------------------------------------------------------------------------------------------------------

// The facts that forward and backward share; both ops have the same accessors.
template <typename Op> static plan::Attention describe(Op op, bool backward) {
  plan::Attention attention;
  attention.backward = backward;
  ArrayRef<int64_t> q = tensorOf(op.getQ()).getShape();
  attention.s = q[0], attention.b = q[1], attention.g = q[2], attention.r = q[3], attention.d = q[4];
  attention.t = tensorOf(op.getK()).getDimSize(0);
  attention.scale = op.getScale().convertToDouble();
  attention.window = op.getWindow();
  attention.dropout = op.getDropout().convertToDouble();
  if (attention.dropout > 0)
    attention.site = int64_t(hashName({op.getSite().data(), op.getSite().size()}));
  attention.seed.kind = plan::Scalar::Kind::seed;
  attention.instance.kind = plan::Scalar::Kind::instance;
  attention.groupStride = op.getQueriesPerGroup();
  auto names = layoutOf(op.getQ()).getNames();
  DictionaryAttr coordinates = op.getCoordinatesAttr();
  auto addTerm = [&](StringAttr name, int64_t scale) {
    if (auto axes = coordinates ? coordinates.template getAs<ArrayAttr>(name) : ArrayAttr();
        axes && !axes.empty())
      attention.headOffset.terms.push_back({axesOf(axes), scale});
  };
  addTerm(names[2], attention.g * attention.groupStride);
  addTerm(names[3], attention.r);
  attention.workspaceBytes = attentionWorkspaceBytes(attention);
  return attention;
}

static LibraryCall callOf(Operation *op, plan::Attention attention) {
  LibraryCall call{attention, {}};
  llvm::append_range(call.operands, op->getOperands());
  llvm::append_range(call.operands, op->getResults());
  return call;
}
// From one group to the next; 0: dense.
static int64_t strideOf(Value value) { return viewOf(value).pitch.elements; }

template <typename Op> static plan::Attention withStrides(Op op, plan::Attention attention) {
  attention.qStride = strideOf(op.getQ());
  attention.kStride = strideOf(op.getK());
  attention.vStride = strideOf(op.getV());
  return attention;
}
LibraryCall AttentionOp::getCall() { return callOf(*this, withStrides(*this, describe(*this, false))); }
LibraryCall AttentionGradOp::getCall() {
  plan::Attention attention = withStrides(*this, describe(*this, true));
  attention.dqStride = strideOf(getDq());
  attention.dkStride = strideOf(getDk());
  attention.dvStride = strideOf(getDv());
  return callOf(*this, attention);
}
static constexpr int64_t kGroupDims = 3; // positions, sequences and groups may lie apart
static int64_t pitchedDims(unsigned number) {
  return number < 3 ? kGroupDims : 0;
} // of q, k, v, or dq, dk, dv
int64_t AttentionOp::getPitchedOperandDims(unsigned operand) { return pitchedDims(operand); }
int64_t AttentionOp::getPitchedResultDims(unsigned) { return 0; }
int64_t AttentionGradOp::getPitchedOperandDims(unsigned operand) { return pitchedDims(operand); }
int64_t AttentionGradOp::getPitchedResultDims(unsigned result) { return pitchedDims(result); }
double AttentionOp::getFlops() { return plan::flopsOf(describe(*this, false)); }
double AttentionGradOp::getFlops() { return plan::flopsOf(describe(*this, true)); }
int64_t AttentionOp::getWorkspaceBytes() { return describe(*this, false).workspaceBytes; }
int64_t AttentionGradOp::getWorkspaceBytes() { return describe(*this, true).workspaceBytes; }

// --- rope: row body
// -------------------------------------------------------------------------------------------------

int64_t RopeOp::getDenseDims() { return 1; } // its halves are rows of pairs

// Columns are the pairs: half of the last dimension.
RowSpace RopeOp::getRowSpace() {
  RowSpace space{RowSpace::Kind::alone, rowDims(getX()), {}};
  RowSpace::NamedDim last = space.rows.pop_back_val();
  space.columns.push_back({last.name, last.size / 2});
  return space;
}

LogicalResult RopeOp::emitRow(RowEmitter &e) {
  using rowgen::mul, rowgen::sub, rowgen::add;
  rowgen::RowGraph &g = e.graph();
  std::vector<rowgen::Dim> dims = e.dims(getX());
  rowgen::Dim pair = dims.back(), half = g.addDim(rowgen::DimKind::indexed, 2);
  dims.insert(dims.end() - 1, half);
  rowgen::Operand in = e.operand(getX(), rowgen::Access::in, dims);
  rowgen::Operand out = e.operand(getY(), e.accessOf(getY()), dims);
  rowgen::Node a = g.load(in, {{half, 0}}), b = g.load(in, {{half, 1}});
  rowgen::Node position = rowgen::toF32(g, e.value(getPositions()));
  rowgen::Node angle = mul(g, position, lookUp(g, getFrequencies(), g.index(pair)));
  rowgen::Node cos = rowgen::cos(g, angle), sin = rowgen::sin(g, angle);
  if (getInverse())
    sin = rowgen::scale(g, sin, -1);
  g.store(out, sub(g, mul(g, a, cos), mul(g, b, sin)), {{half, 0}});
  g.store(out, add(g, mul(g, b, cos), mul(g, a, sin)), {{half, 1}});
  return success();
}
