// Rotary positions and attention: verifiers, gradients, costs, lowering.
#include "dialects/mg/DataKind.h"
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"
#include "dialects/mg/Target.h"
#include "dialects/mg/View.h"
#include "plan/Plan.h"
#include "plan/targets/AttentionWorkspace.h"
#include "plan/targets/CudaAttention.h"
#include "runtime/random/Philox.h"

using namespace mlir;
using namespace mgc;

LogicalResult CosSinOp::verify() {
  int64_t size = tensorOf(getY()).getShape().back();
  return int64_t(getFrequencies().size()) * 2 == size
             ? success()
             : emitOpError() << getFrequencies().size() << " frequencies for a last dimension of " << size
                             << "; expected half of it (cos_sin_c1)";
}

LogicalResult RopeOp::verify() {
  if (int64_t size = tensorOf(getX()).getShape().back(); size % 2 != 0)
    return emitOpError() << "the last dimension has " << size
                         << " elements; expected an even number (rope_c1)";
  for (StringAttr name : layoutOf(getCosSin()).getNames())
    if (layoutOf(getX()).indexOf(name) < 0)
      return emitOpError() << "the cosines and sines have a dimension " << name
                           << ", which x lacks (rope_c1)";
  return success();
}

LogicalResult RopeOp::buildGradient(GradientBuilder &g) {
  if (g.wants(getCosSin()))
    return emitOpError(
        "has no gradient of its cosines and sines, but they depend on a parameter or an activation");
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<RopeOp>(getX(), dy, getCosSin(),
                                        getInverse() ? UnitAttr() : g.builder().getUnitAttr()));
  return success();
}

// `values` are of one element type.
static LogicalResult verifyElements(Operation *op, ValueRange values, StringRef constraint) {
  for (Value value : values)
    if (elementOf(value) != elementOf(values.front()))
      return op->emitOpError() << "has values of " << elementOf(values.front()) << " and of "
                               << elementOf(value) << "; expected one element type for all but lse ("
                               << constraint << ")";
  return success();
}

// Results that are f32, whatever the operands are, are summands.
static bool areF32(ArrayRef<Value> results) {
  return llvm::all_of(results, [](Value value) { return elementOf(value).isF32(); });
}

// Keys are whole or a ring's; `ring` has axes of the mesh.
template <typename Op>
static LogicalResult verifyRing(Op op, StringRef splitConstraint, StringRef axesConstraint) {
  const ArrayAttr queries = layoutOf(op.getQ()).getAxes().front(),
                  keys = layoutOf(op.getK()).getAxes().front();
  if (!keys.empty() && keys != queries)
    return op.emitOpError() << "has keys that are split over " << keys << " and queries over " << queries
                            << "; expected whole keys, or keys split as the queries are (" << splitConstraint
                            << ")";
  ArrayAttr ring = op.getRingAttr();
  if (!ring)
    return success();
  if (ring.empty())
    return op.emitOpError() << "has a ring over no axes; expected one or more, or none where keys are whole ("
                            << axesConstraint << ")";
  auto module = op->template getParentOfType<ModuleOp>();
  auto mesh = module ? module->template getAttrOfType<MeshAttr>(kMeshAttr) : MeshAttr();
  if (!mesh)
    return op.emitOpError() << "has a ring in a module without " << kMeshAttr << " (" << axesConstraint
                            << ")";
  return mesh.verifyAxes([&] { return op.emitOpError() << axesConstraint << ": "; }, ring);
}

LogicalResult AttentionOp::verify() {
  bool drops = getDropout().convertToDouble() > 0;
  if (drops != bool(getSamples()))
    return emitOpError("samples are given exactly when dropout > 0 (attention_c1)");
  SmallVector<Value> values{getQ(), getK(), getV()};
  if (!areF32({getO()}))
    values.push_back(getO());
  return failed(verifyElements(*this, values, "attention_c2"))
             ? failure()
             : verifyRing(*this, "attention_c3", "attention_c4");
}

LogicalResult AttentionGradOp::verify() {
  SmallVector<Value> values{getQ(), getK(), getV(), getO(), getDo_()};
  if (!areF32({getDq(), getDk(), getDv()}))
    values.append({getDq(), getDk(), getDv()});
  return failed(verifyElements(*this, values, "attention_grad_c1"))
             ? failure()
             : verifyRing(*this, "attention_grad_c2", "attention_grad_c3");
}

LogicalResult AttentionOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getO());
  if (!dy)
    return success();
  auto grad = AttentionGradOp::create(
      g.builder(), g.loc(), TypeRange{getQ().getType(), getK().getType(), getV().getType()}, getQ(), getK(),
      getV(), getO(), getLse(), dy, getPositions(), getKeyPositions(), getStarts(), getSamples(),
      getScaleAttr(), getWindowAttr(), getDropoutAttr(), getSiteAttr(), getQueriesPerGroupAttr(),
      DictionaryAttr(), ArrayAttr());
  copyTag(*this, grad);
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

// The axes along which the rank has its part of the sequence, where these are the positions of it that the runtime
// numbers; else nothing.
static std::optional<plan::Axes> partOfSequence(Value positions) {
  SmallVector<Attribute> axes;
  for (;;)
    if (auto rename = positions.getDefiningOp<RenameOp>()) {
      positions = rename.getValue();
    } else if (auto slice = positions.getDefiningOp<SliceOp>(); slice && slice.getDim() == 0) {
      axes.insert(axes.begin(), slice.getAxes().begin(), slice.getAxes().end());
      positions = slice.getValue();
    } else {
      break;
    }
  auto argument = dyn_cast<BlockArgument>(positions);
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  auto kind =
      function ? function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kDataAttr) : StringAttr();
  const Result<const DataKind *> data = findDataKind(kind ? kind.getValue() : "");
  if (!data.isOk() || !(*data)->isPosition)
    return std::nullopt;
  auto sharded = function.getArgAttrOfType<TypeAttr>(argument.getArgNumber(), kTypeAttr); // from local on
  ArrayAttr split = layoutOf(sharded ? sharded.getValue() : positions.getType()).getAxes().front();
  axes.insert(axes.begin(), split.begin(), split.end());
  return axesOf(ArrayAttr::get(positions.getContext(), axes));
}

// The order of the positions, if it is known and all keys are there.
template <typename Op> static void setOrder(Op op, plan::Attention &attention) {
  const auto queries = partOfSequence(op.getPositions()), keys = partOfSequence(op.getKeyPositions());
  if (!queries || !keys || !keys->empty())
    return;
  auto module = op->template getParentOfType<ModuleOp>();
  auto training = module ? module->template getAttrOfType<DictionaryAttr>(kTrainingAttr) : DictionaryAttr();
  auto zigzag = training ? training.template getAs<IntegerAttr>(kZigzag) : IntegerAttr();
  attention.zigzag = zigzag ? zigzag.getInt() : 1;
  attention.queryAxes = *queries;
}

// The facts that forward and backward share; both ops have the same accessors.
template <typename Op> static plan::Attention describe(Op op, bool backward) {
  plan::Attention attention;
  attention.backward = backward;
  ArrayRef<int64_t> q = tensorOf(op.getQ()).getShape();
  attention.s = q[0], attention.b = q[1], attention.g = q[2], attention.r = q[3], attention.d = q[4];
  attention.t = tensorOf(op.getK()).getDimSize(0);
  attention.type = dtypeOf(elementOf(op.getQ()));
  attention.resultsInF32 = attention.type != plan::DType::f32 && areF32({op->getResult(0)});
  setOrder(op, attention);
  attention.scale = op.getScale().convertToDouble();
  attention.window = op.getWindow();
  attention.documents = bool(op.getStarts());
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
  const int64_t needed = targetOf(op) == plan::Target::cuda ? cudaAttentionWorkspaceBytes(attention)
                                                            : attentionWorkspaceBytes(attention);
  attention.workspaceBytes = std::max(needed, plan::kAlignment); // the call always has the operand
  return attention;
}

static InstructionCall callOf(Operation *op, plan::Attention attention) {
  InstructionCall call{attention, {}};
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
InstructionCall AttentionOp::getCall() { return callOf(*this, withStrides(*this, describe(*this, false))); }
InstructionCall AttentionGradOp::getCall() {
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

// --- merge_attention
// ------------------------------------------------------------------------------------------------------------

RowSpace MergeAttentionOp::getRowSpace() {
  RowSpace space{RowSpace::Kind::alone, rowDims(getO()), {}};
  space.columns.push_back(space.rows.pop_back_val());
  return space;
}

// With m = max(lse1, lse2) the weights are exp(lse - m), of which one is 1 unless both are 0: then m is finite, the sum 0.
LogicalResult MergeAttentionOp::emitRow(RowEmitter &e) {
  using rowgen::mul, rowgen::sub, rowgen::add, rowgen::Node;
  rowgen::RowGraph &g = e.graph();
  const Node lse1 = e.value(getLse1()), lse2 = e.value(getLse2());
  const Node m = rowgen::max(g, rowgen::max(g, lse1, lse2), g.constant(std::numeric_limits<float>::lowest()));
  const Node weight1 = rowgen::exp(g, sub(g, lse1, m)), weight2 = rowgen::exp(g, sub(g, lse2, m));
  const Node sum = add(g, weight1, weight2);
  e.define(getLse(), add(g, m, rowgen::log(g, sum)));
  const Node o = add(g, mul(g, weight1, e.value(getO1())), mul(g, weight2, e.value(getO2())));
  e.define(getO(), rowgen::div(g, o, rowgen::max(g, sum, g.constant(1))));
  return success();
}

// --- rope: row bodies
// -------------------------------------------------------------------------------------------------

int64_t CosSinOp::getDenseDims() { return 1; } // halves are rows of pairs
int64_t RopeOp::getDenseDims() { return 1; }

// Columns are the pairs: half of the last dimension.
static RowSpace pairsOf(Value value) {
  RowSpace space{RowSpace::Kind::alone, rowDims(value), {}};
  RowSpace::NamedDim last = space.rows.pop_back_val();
  space.columns.push_back({last.name, last.size / 2});
  return space;
}
RowSpace CosSinOp::getRowSpace() { return pairsOf(getY()); }
RowSpace RopeOp::getRowSpace() { return pairsOf(getX()); }

namespace {

// Values whose last dimension is two rows of pairs.
class Halves {
public:
  explicit Halves(RowEmitter &e) : e_(e), half_(e.graph().addDim(rowgen::DimKind::indexed, 2)) {}

  rowgen::Node load(Value value, int64_t half) {
    auto [known, isNew] = inputs_.try_emplace(value);
    if (isNew)
      known->second = operand(value, rowgen::Access::in);
    return e_.graph().load(known->second, {{half_, half}});
  }
  void store(Value result, rowgen::Node first, rowgen::Node second) {
    rowgen::RowOperand out = operand(result, e_.accessOf(result));
    e_.graph().store(out, first, {{half_, 0}});
    e_.graph().store(out, second, {{half_, 1}});
  }

private:
  rowgen::RowOperand operand(Value value, rowgen::Access access) {
    std::vector<rowgen::Dim> dims = e_.dims(value);
    dims.insert(dims.end() - 1, half_);
    return e_.operand(value, access, dims);
  }

  RowEmitter &e_;
  rowgen::Dim half_;
  llvm::DenseMap<Value, rowgen::RowOperand> inputs_;
};

} // namespace

LogicalResult CosSinOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  rowgen::Dim pair = e.dims(getY()).back();
  rowgen::Node position = rowgen::toF32(g, e.value(getPositions()));
  rowgen::Node angle = rowgen::mul(g, position, lookUp(g, getFrequencies(), g.index(pair)));
  Halves(e).store(getY(), rowgen::cos(g, angle), rowgen::sin(g, angle));
  return success();
}

LogicalResult RopeOp::emitRow(RowEmitter &e) {
  using rowgen::mul, rowgen::sub, rowgen::add;
  rowgen::RowGraph &g = e.graph();
  Halves halves(e);
  rowgen::Node a = halves.load(getX(), 0), b = halves.load(getX(), 1);
  rowgen::Node cos = halves.load(getCosSin(), 0), sin = halves.load(getCosSin(), 1);
  if (getInverse())
    sin = rowgen::scale(g, sin, -1);
  halves.store(getY(), sub(g, mul(g, a, cos), mul(g, b, sin)), add(g, mul(g, b, cos), mul(g, a, sin)));
  return success();
}
