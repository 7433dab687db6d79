// Rotary positions and attention: verifiers, gradients, costs, lowering.
#include "dialects/mg/DataKind.h"
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"
#include "dialects/mg/Target.h"
#include "dialects/mg/View.h"
#include "plan/Plan.h"
#include "plan/RelativeBuckets.h"
#include "plan/SequenceOrder.h"
#include "plan/targets/AttentionWorkspace.h"
#include "plan/targets/CudaAttention.h"
#include "runtime/random/Philox.h"

#include <cmath>

using namespace mlir;
using namespace mgc;

LogicalResult CosSinOp::verify() {
  int64_t size = tensorOf(getY()).getShape().back();
  if ((getGrowth().convertToDouble() != 0) != (getPeriod() > 0))
    return emitOpError() << "has growth = " << getGrowth().convertToDouble() << " and period = " << getPeriod()
                         << "; expected both or neither (cos_sin_c2)";
  return int64_t(getFrequencies().size()) * 2 == size ? success()
                                                      : emitOpError() << getFrequencies().size()
                                                                      << " frequencies for a last dimension of " << size
                                                                      << "; expected half of it (cos_sin_c1)";
}

LogicalResult RopeOp::verify() {
  const int64_t size = tensorOf(getX()).getShape().back(), rotated = tensorOf(getCosSin()).getShape().back();
  if (rotated % 2 != 0)
    return emitOpError() << "the last dimension of cosSin has " << rotated
                         << " elements; expected an even number (rope_c1)";
  for (StringAttr name : layoutOf(getCosSin()).getNames().drop_back())
    if (layoutOf(getX()).indexOf(name) < 0)
      return emitOpError() << "the cosines and sines have a dimension " << name << ", which x lacks (rope_c1)";
  if (rotated == size || (!getInterleaved() && rotated > 0 && rotated < size && size * 2 % rotated == 0))
    return success();
  return emitOpError() << "rotates " << rotated << (getInterleaved() ? " interleaved" : "") << " of " << size
                       << " elements; expected all of them, or as many as are not interleaved and divide " << 2 * size
                       << " (rope_c2)";
}

LogicalResult RopeOp::buildGradient(GradientBuilder &g) {
  if (g.wants(getCosSin()))
    return emitOpError("has no gradient of its cosines and sines, but they depend on a parameter or an activation");
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<RopeOp>(getX(), dy, getCosSin(), getInterleavedAttr(),
                                        getInverse() ? UnitAttr() : g.builder().getUnitAttr()));
  return success();
}

// The groups and their queries.
static SmallVector<StringAttr> headFactors(Value q) {
  auto names = layoutOf(q).getNames();
  return {names[2], names[3]};
}

// `values` are of one element type.
static LogicalResult verifyElements(Operation *op, ValueRange values, StringRef constraint) {
  for (Value value : values)
    if (elementOf(value) != elementOf(values.front()))
      return op->emitOpError() << "has values of " << elementOf(values.front()) << " and of " << elementOf(value)
                               << "; expected one element type for all but lse (" << constraint << ")";
  return success();
}

// Results that are f32, whatever the operands are, are summands.
static bool areF32(ArrayRef<Value> results) {
  return llvm::all_of(results, [](Value value) { return elementOf(value).isF32(); });
}

// Keys are whole or a ring's; `ring` has axes of the mesh.
template <typename Op> static LogicalResult verifyRing(Op op, StringRef splitConstraint, StringRef axesConstraint) {
  const ArrayAttr queries = layoutOf(op.getQ()).getAxes().front(), keys = layoutOf(op.getK()).getAxes().front();
  if (!keys.empty() && keys != queries)
    return op.emitOpError() << "has keys that are split over " << keys << " and queries over " << queries
                            << "; expected whole keys, or keys split as the queries are (" << splitConstraint << ")";
  ArrayAttr ring = op.getRingAttr();
  if (!ring)
    return success();
  if (ring.empty())
    return op.emitOpError() << "has a ring over no axes; expected one or more, or none where keys are whole ("
                            << axesConstraint << ")";
  auto module = op->template getParentOfType<ModuleOp>();
  auto mesh = module ? module->template getAttrOfType<MeshAttr>(kMeshAttr) : MeshAttr();
  if (!mesh)
    return op.emitOpError() << "has a ring in a module without " << kMeshAttr << " (" << axesConstraint << ")";
  return mesh.verifyAxes([&] { return op.emitOpError() << axesConstraint << ": "; }, ring);
}

// Query heads of the model: `factor` groups or queries of all ranks.
static int64_t sizeOverRanks(Operation *op, StringAttr factor) {
  const auto coordinates = op->getAttrOfType<DictionaryAttr>("coordinates");
  const auto axes = coordinates ? coordinates.getAs<ArrayAttr>(factor) : ArrayAttr();
  auto module = op->getParentOfType<ModuleOp>();
  auto mesh = module ? module->getAttrOfType<MeshAttr>(kMeshAttr) : MeshAttr();
  return factsOf(op, factor).size * (axes && mesh ? mesh.sizeOf(axes) : 1);
}

// How scores are made of products.
template <typename Op> static LogicalResult verifyScores(Op op, StringRef capConstraint, StringRef slopesConstraint) {
  if (const double cap = op.getSoftcap().convertToDouble(); !std::isfinite(cap) || cap < 0)
    return op.emitOpError() << "softcap = " << cap << "; expected a finite number above 0, or 0 for none ("
                            << capConstraint << ")";
  ArrayRef<double> slopes = op.getSlopes();
  if (slopes.empty())
    return success();
  int64_t heads = 1;
  for (StringAttr factor : headFactors(op.getQ()))
    heads *= sizeOverRanks(op, factor);
  if (int64_t(slopes.size()) != heads)
    return op.emitOpError() << "has " << slopes.size() << " slopes; expected none, or one for each of " << heads
                            << " query heads (" << slopesConstraint << ")";
  if (const auto *found = llvm::find_if(slopes, [](double slope) { return !std::isfinite(slope); });
      found != slopes.end())
    return op.emitOpError() << "slopes[" << found - slopes.begin() << "] = " << *found << "; expected finite numbers ("
                            << slopesConstraint << ")";
  return success();
}

template <typename Op> static LogicalResult verifyBias(Op op, StringRef constraint) {
  const int64_t maxDistance = op.getBiasMaxDistance();
  if (bool(op.getBias()) != (maxDistance != 0))
    return op.emitOpError() << "biasMaxDistance = " << maxDistance << (op.getBias() ? " with" : " without")
                            << " a bias; expected one above 0 with a bias alone (" << constraint << ")";
  if (!op.getBias())
    return success();
  const Status found = plan::verifyBuckets(tensorOf(op.getBias()).getDimSize(0), maxDistance, op.getCausal());
  return found.isOk() ? success()
                      : op.emitOpError() << "has a bias of " << found.message() << " (" << constraint << ")";
}

LogicalResult AttentionOp::verify() {
  bool drops = getDropout().convertToDouble() > 0;
  if (drops != bool(getSamples()))
    return emitOpError("samples are given exactly when dropout > 0 (attention_c1)");
  SmallVector<Value> values{getQ(), getK(), getV()};
  if (getSinks())
    values.push_back(getSinks());
  if (getBias())
    values.push_back(getBias());
  if (!areF32({getO()}))
    values.push_back(getO());
  return failed(verifyElements(*this, values, "attention_c2"))
             ? failure()
             : success(succeeded(verifyRing(*this, "attention_c3", "attention_c4")) &&
                       succeeded(verifyScores(*this, "attention_c5", "attention_c6")) &&
                       succeeded(verifyBias(*this, "attention_c7")));
}

LogicalResult AttentionGradOp::verify() {
  SmallVector<Value> values{getQ(), getK(), getV(), getO(), getDo_()};
  if (!areF32({getDq(), getDk(), getDv()}))
    values.append({getDq(), getDk(), getDv()});
  if (getBias())
    values.push_back(getBias());
  if (bool(getBias()) != bool(getDbias()))
    return emitOpError() << "has " << (getBias() ? "a bias and no dbias" : "dbias and no bias")
                         << "; expected both or neither (attention_grad_c6)";
  return failed(verifyElements(*this, values, "attention_grad_c1"))
             ? failure()
             : success(succeeded(verifyRing(*this, "attention_grad_c2", "attention_grad_c3")) &&
                       succeeded(verifyScores(*this, "attention_grad_c4", "attention_grad_c5")) &&
                       succeeded(verifyBias(*this, "attention_grad_c6")));
}

void AttentionOp::dropNothing() {
  getSamplesMutable().clear();
  setDropoutAttr(Builder(getContext()).getF64FloatAttr(0));
  setSiteAttr(Builder(getContext()).getStringAttr(""));
}

LogicalResult AttentionOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getO());
  if (!dy)
    return success();
  SmallVector<Type> types{getQ().getType(), getK().getType(), getV().getType()};
  if (getBias())
    types.push_back(tensorOf(getBias()).clone(g.builder().getF32Type()));
  auto grad = AttentionGradOp::create(g.builder(), g.loc(), types, getQ(), getK(), getV(), getO(), getLse(), dy,
                                      getPositions(), getKeyPositions(), getStarts(), getEnds(), getSamples(),
                                      getBias(), getScaleAttr(), getWindowAttr(), getCausalAttr(), getSoftcapAttr(),
                                      getSlopesAttr(), getBiasMaxDistanceAttr(), getDropoutAttr(), getSiteAttr(),
                                      getQueriesPerGroupAttr(), getZigzagAttr(), DictionaryAttr(), ArrayAttr());
  copyTag(*this, grad);
  g.contribute(getQ(), grad.getDq());
  g.contribute(getK(), grad.getDk());
  g.contribute(getV(), grad.getDv());
  if (getBias() && g.wants(getBias()))
    g.contribute(getBias(),
                 elementOf(getBias()).isF32() ? grad.getDbias() : g.make<CastOp>(getBias(), grad.getDbias()));
  if (getSinks() && g.wants(getSinks())) {
    Value each = SinkGradOp::create(g.builder(), g.loc(), getLse().getType(), getO(), getLse(), dy, getSinks());
    g.contribute(getSinks(), g.make<SumOp>(getSinks(), each));
  }
  return success();
}

LogicalResult SinkGradOp::verify() {
  return elementOf(getO()) == elementOf(getDo_()) ? success()
                                                  : emitOpError() << "has o of " << elementOf(getO()) << " and do of "
                                                                  << elementOf(getDo_())
                                                                  << "; expected one element type (sink_grad_c1)";
}

SmallVector<StringAttr> AttentionOp::getIndexedFactors() { return headFactors(getQ()); }
SmallVector<StringAttr> AttentionGradOp::getIndexedFactors() { return headFactors(getQ()); }

// --- attention: library call

// The axes along which the rank has its part of a sequence.
struct PartOfSequence {
  plan::Axes axes;
  bool ofEncoder = false; // the sequence is the encoder's
};

// Nothing where the positions are not those that the runtime numbers.
static std::optional<PartOfSequence> partOfSequence(Value positions) {
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
  auto kind = function ? function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kDataAttr) : StringAttr();
  const Result<DataRead> data = readDataKind(kind ? kind.getValue() : "");
  if (!data.isOk() || !data->kind->isPosition)
    return std::nullopt;
  auto sharded = function.getArgAttrOfType<TypeAttr>(argument.getArgNumber(), kTypeAttr); // from local on
  ArrayAttr split = layoutOf(sharded ? sharded.getValue() : positions.getType()).getAxes().front();
  axes.insert(axes.begin(), split.begin(), split.end());
  return PartOfSequence{axesOf(ArrayAttr::get(positions.getContext(), axes)), data->ofEncoder};
}

// The order of the positions is known of one sequence, where all keys are there.
template <typename Op> static void setOrder(Op op, plan::Attention &attention) {
  const auto queries = partOfSequence(op.getPositions()), keys = partOfSequence(op.getKeyPositions());
  const int64_t zigzag = op.getZigzag();
  attention.zigzag = 0;
  if (!queries || !keys || !keys->axes.empty() || queries->ofEncoder != keys->ofEncoder ||
      !plan::isOrder(attention.t, zigzag))
    return;
  attention.zigzag = zigzag;
  attention.queryAxes = queries->axes;
}

// Gives a plan's field the op's attribute of the same name and kind.
struct AttributeReader {
  Operation *op;
  plan::Attention &to;
  template <typename Field> void required(StringRef name, Field plan::Attention::*field) {
    const Attribute attribute = op->getAttr(name);
    if constexpr (std::is_same_v<Field, double>) {
      if (auto number = dyn_cast_or_null<FloatAttr>(attribute))
        to.*field = number.getValueAsDouble();
    } else if constexpr (std::is_same_v<Field, bool> || std::is_same_v<Field, int64_t>) {
      if (auto number = dyn_cast_or_null<IntegerAttr>(attribute))
        to.*field = number.getValue().getZExtValue();
    } else if constexpr (std::is_same_v<Field, std::vector<double>>) {
      if (auto numbers = dyn_cast_or_null<DenseF64ArrayAttr>(attribute))
        to.*field = numbers.asArrayRef().vec();
    }
  }
  template <typename Field> void optional(StringRef name, Field plan::Attention::*field) { required(name, field); }
};

// The facts that forward and backward share; both ops have the same accessors.
template <typename Op> static plan::Attention describe(Op op, bool backward) {
  plan::Attention attention;
  attention.backward = backward;
  ArrayRef<int64_t> q = tensorOf(op.getQ()).getShape();
  attention.s = q[0], attention.b = q[1], attention.g = q[2], attention.r = q[3], attention.d = q[4];
  attention.t = tensorOf(op.getK()).getDimSize(0);
  if (const int64_t w = tensorOf(op.getV()).getShape().back(); w != attention.d)
    attention.w = w;
  attention.type = dtypeOf(elementOf(op.getQ()));
  attention.resultsInF32 = attention.type != plan::DType::f32 && areF32({op->getResult(0)});
  AttributeReader reader{op, attention};
  fields(reader, plan::Of<plan::Attention>());
  setOrder(op, attention);
  if (op.getBias())
    attention.biasBuckets = tensorOf(op.getBias()).getDimSize(0);
  attention.documents = bool(op.getStarts());
  attention.ends = bool(op.getEnds());
  if constexpr (std::is_same_v<Op, AttentionOp>)
    attention.sinks = bool(op.getSinks());
  if (attention.dropout > 0)
    attention.site = int64_t(hashName({op.getSite().data(), op.getSite().size()}));
  attention.seed.kind = plan::Scalar::Kind::seed;
  attention.instance.kind = plan::Scalar::Kind::instance;
  attention.groupStride = op.getQueriesPerGroup();
  auto names = layoutOf(op.getQ()).getNames();
  DictionaryAttr coordinates = op.getCoordinatesAttr();
  auto addTerm = [&](StringAttr name, int64_t scale) {
    if (auto axes = coordinates ? coordinates.template getAs<ArrayAttr>(name) : ArrayAttr(); axes && !axes.empty())
      attention.headOffset.terms.push_back({axesOf(axes), scale});
  };
  addTerm(names[2], attention.g * attention.groupStride);
  addTerm(names[3], attention.r);
  const int64_t needed =
      targetOf(op) == plan::Target::cuda ? cudaAttentionWorkspaceBytes(attention) : attentionWorkspaceBytes(attention);
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
// Dimensions of q, k, v (or dq, dk, dv) that may have a pitch.
static int64_t pitchedDims(unsigned number) { return number < 3 ? kGroupDims : 0; }
int64_t AttentionOp::getPitchedOperandDims(unsigned operand) { return pitchedDims(operand); }
int64_t AttentionOp::getPitchedResultDims(unsigned) { return 0; }
int64_t AttentionGradOp::getPitchedOperandDims(unsigned operand) { return pitchedDims(operand); }
int64_t AttentionGradOp::getPitchedResultDims(unsigned result) { return pitchedDims(result); }
double AttentionOp::getFlops() { return plan::flopsOf(describe(*this, false)); }
double AttentionGradOp::getFlops() { return plan::flopsOf(describe(*this, true)); }
int64_t AttentionOp::getWorkspaceBytes() { return describe(*this, false).workspaceBytes; }
int64_t AttentionGradOp::getWorkspaceBytes() { return describe(*this, true).workspaceBytes; }

// --- merge_attention

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

// --- sink_grad

LogicalResult SinkGradOp::emitRow(RowEmitter &e) {
  using rowgen::mul, rowgen::Node;
  rowgen::RowGraph &g = e.graph();
  const Node delta = e.sumOverColumns(mul(g, e.value(getO()), e.value(getDo_())));
  const Node share = rowgen::exp(g, rowgen::sub(g, e.value(getSinks()), e.value(getLse())));
  e.define(getResult(), rowgen::scale(g, mul(g, share, delta), -1));
  return success();
}

// --- rope: row bodies

int64_t CosSinOp::getDenseDims() { return 1; } // rows of pairs
int64_t RopeOp::getDenseDims() { return 1; }

// Columns are the pairs of `angles`: half of its last dimension. Neighbours are no two rows of pairs: each pair is a row.
static RowSpace pairsOf(Value value, Value angles, bool areNeighbours = false) {
  RowSpace space{RowSpace::Kind::alone, rowDims(value), {}};
  const RowSpace::NamedDim last = space.rows.pop_back_val();
  (areNeighbours ? space.rows : space.columns).push_back({last.name, tensorOf(angles).getShape().back() / 2});
  return space;
}
RowSpace CosSinOp::getRowSpace() { return pairsOf(getY(), getY()); }
RowSpace RopeOp::getRowSpace() { return pairsOf(getX(), getCosSin(), getInterleaved()); }

namespace {

// Values whose last dimension is rows of as many elements as there are pairs, one after another: the first two are the two of
// each pair. Or neighbours are the two of a pair.
class Pairs {
public:
  Pairs(RowEmitter &e, rowgen::Dim pair) : e_(e), pair_(pair) {}

  rowgen::Node load(Value value, int64_t row, bool areNeighbours = false) {
    auto [known, isNew] = inputs_.try_emplace(value);
    if (isNew)
      known->second = operand(value, rowgen::Access::in, areNeighbours);
    return e_.graph().load(known->second.operand, {{known->second.row, row}});
  }
  void store(Value result, llvm::ArrayRef<rowgen::Node> rows, bool areNeighbours = false) {
    const Rows out = operand(result, e_.accessOf(result), areNeighbours);
    for (auto [row, node] : llvm::enumerate(rows))
      e_.graph().store(out.operand, node, {{out.row, int64_t(row)}});
  }
  int64_t rowsOf(Value value) const { return tensorOf(value).getShape().back() / e_.graph()[pair_].size; }

private:
  struct Rows {
    rowgen::RowOperand operand;
    rowgen::Dim row;
  };
  Rows operand(Value value, rowgen::Access access, bool areNeighbours) {
    std::vector<rowgen::Dim> dims;
    for (StringAttr name : layoutOf(value).getNames().drop_back())
      dims.push_back(e_.dim(name, tensorOf(value).getDimSize(layoutOf(value).indexOf(name))));
    const auto [known, isNew] = rows_.try_emplace(rowsOf(value)); // x and y have one, to be one buffer
    if (isNew)
      known->second = e_.graph().addDim(rowgen::DimKind::indexed, rowsOf(value));
    const rowgen::Dim row = known->second;
    dims.push_back(areNeighbours ? pair_ : row);
    dims.push_back(areNeighbours ? row : pair_);
    return {e_.operand(value, access, dims), row};
  }

  RowEmitter &e_;
  rowgen::Dim pair_;
  llvm::DenseMap<Value, Rows> inputs_;
  std::map<int64_t, rowgen::Dim> rows_; // by how many there are
};

} // namespace

LogicalResult CosSinOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  rowgen::Dim pair = e.dims(getY()).back();
  rowgen::Node position = rowgen::toF32(g, e.value(getPositions()));
  rowgen::Node angle = rowgen::mul(g, position, lookUp(g, getFrequencies(), g.index(pair)));
  const double factor = getScale().convertToDouble(), growth = getGrowth().convertToDouble();
  std::optional<rowgen::Node> grown;
  if (getPeriod() > 0) {
    rowgen::Node periods = rowgen::truncate(g, rowgen::div(g, position, g.constant(double(getPeriod()))));
    grown = rowgen::shift(g, rowgen::scale(g, rowgen::log(g, rowgen::shift(g, periods, 1)), growth), 1);
  }
  const auto scaled = [&](rowgen::Node node) {
    node = factor == 1 ? node : rowgen::scale(g, node, factor);
    return grown ? rowgen::mul(g, node, *grown) : node;
  };
  Pairs(e, pair).store(getY(), {scaled(rowgen::cos(g, angle)), scaled(rowgen::sin(g, angle))});
  return success();
}

LogicalResult RopeOp::emitRow(RowEmitter &e) {
  using rowgen::mul, rowgen::sub, rowgen::add;
  rowgen::RowGraph &g = e.graph();
  const bool areNeighbours = getInterleaved();
  Pairs pairs(e, e.dims(getX()).back());
  rowgen::Node a = pairs.load(getX(), 0, areNeighbours), b = pairs.load(getX(), 1, areNeighbours);
  rowgen::Node cos = pairs.load(getCosSin(), 0), sin = pairs.load(getCosSin(), 1);
  if (getInverse())
    sin = rowgen::scale(g, sin, -1);
  SmallVector<rowgen::Node> rows{sub(g, mul(g, a, cos), mul(g, b, sin)), add(g, mul(g, b, cos), mul(g, a, sin))};
  for (int64_t row = 2; row < pairs.rowsOf(getX()); ++row) // rows that do not rotate
    rows.push_back(pairs.load(getX(), row));
  pairs.store(getY(), rows, areNeighbours);
  return success();
}
