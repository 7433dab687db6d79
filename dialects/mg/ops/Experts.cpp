// Experts: verifiers, gradients, row bodies, grouped matrix products.
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"

using namespace mlir;
using namespace mgc;

// --- verifiers

static int64_t elementsOf(Value value) { return tensorOf(value).getNumElements(); }

static LogicalResult verifyMeshAxes(Operation *op, ArrayAttr axes) {
  auto module = op->getParentOfType<ModuleOp>();
  auto mesh = module ? module->getAttrOfType<MeshAttr>(kMeshAttr) : MeshAttr();
  if (!mesh)
    return op->emitOpError() << "stands in a module without " << kMeshAttr << " (mesh_c4)";
  return mesh.verifyAxes([&] { return op->emitOpError(); }, axes);
}

// Precondition: verifyMeshAxes, where there are any.
static int64_t ranksAlong(Operation *op, ArrayAttr axes) {
  return axes.empty() ? 1 : op->getParentOfType<ModuleOp>()->getAttrOfType<MeshAttr>(kMeshAttr).sizeOf(axes);
}

LogicalResult GroupOp::verify() {
  if (!getAxes().empty() && failed(verifyMeshAxes(*this, getAxes())))
    return failure();
  const int64_t choices = elementsOf(getExperts()), rows = elementsOf(getSources());
  if (elementsOf(getPlaces()) != choices)
    return emitOpError() << "gives " << elementsOf(getPlaces()) << " places to " << choices
                         << " choices; expected one for each (group_c1)";
  const int64_t each = tensorOf(getExperts()).getShape().back(),
                room = roomByMean(*this, roomForRows({choices / each, each}, elementsOf(getCounts()), 1, getCapacity()),
                                  choices, ranksAlong(*this, getAxes()));
  return rows == room ? success()
                      : emitOpError() << "has room for " << rows << " rows of " << choices << " choices, " << each
                                      << " for a token, among " << elementsOf(getCounts()) << " experts; expected "
                                      << room << " (group_c2)";
}

LogicalResult RowCountOp::verify() {
  if (tensorOf(getCounts()).getRank() == 1 && tensorOf(getNumber()).getRank() == 0)
    return success();
  return emitOpError() << "counts rows by " << getCounts().getType() << " as " << getNumber().getType()
                       << "; expected a list, and a number without dimensions (row_count_c1)";
}

LogicalResult DropOp::verify() {
  const ArrayRef<int64_t> choices = tensorOf(getExperts()).getShape();
  const auto count = int64_t(getCount()), capacity = int64_t(getCapacity()), together = int64_t(getTogether());
  if (count < 1 || capacity < 1 || together < 1 || choices[1] % together != 0)
    return emitOpError() << "has room for " << capacity << " choices of each of " << count
                         << " experts, for the tokens of " << together << " sequences of " << choices[1]
                         << "; expected positive numbers, and sequences that divide the batch (drop_c1)";
  return success();
}

// Dimensions of a rank's own values have no axes.
template <typename Op> static LogicalResult verifyOrder(Op op, const char *constraint) {
  const auto isSplit = [](ArrayAttr axes) { return !axes.empty(); };
  if (!op.getOrder() || llvm::none_of(layoutOf(op.getExperts()).getAxes(), isSplit))
    return success();
  return op.emitOpError() << "has an order of rows, which only local programs know (" << constraint << ")";
}
LogicalResult DispatchOp::verify() { return verifyOrder(*this, "dispatch_c1"); }
LogicalResult CombineOp::verify() { return verifyOrder(*this, "combine_c1"); }
LogicalResult SpreadOp::verify() { return verifyOrder(*this, "spread_c1"); }
LogicalResult CollectOp::verify() { return verifyOrder(*this, "collect_c1"); }
LogicalResult RowMaskOp::verify() { return verifyOrder(*this, "row_mask_c1"); }
SmallVector<StringAttr> RowMaskOp::getIndexedFactors() { return rowFactors(*this); }
RowOrder RowMaskOp::getRowOrder() { return RowOrder::sources; }
SmallVector<Value> RowMaskOp::getRows() { return {getResult()}; }

LogicalResult ExchangeOp::verify() {
  if (failed(verifyMeshAxes(*this, getAxes())))
    return failure();
  if (getAxes().empty())
    return emitOpError("exchanges rows over no axes (exchange_c3)");
  const RankedTensorType from = tensorOf(getValue()), to = tensorOf(getResult());
  if (layoutOf(from) != layoutOf(to) || from.getElementType() != to.getElementType() || from.getRank() == 0 ||
      from.getShape().drop_front() != to.getShape().drop_front())
    return emitOpError() << "makes " << to << " of " << from
                         << "; expected rows of the same type, if another number of them (exchange_c1)";
  const int64_t ranks = ranksAlong(*this, getAxes()), numbers = elementsOf(getCounts());
  if (numbers % (ranks * ranks) == 0)
    return success();
  return emitOpError() << "has " << numbers << " counts for " << ranks
                       << " ranks; expected of each rank one for each expert of every rank (exchange_c2)";
}

// The dimensions of one row, and how many elements it has.
static ArrayRef<StringAttr> namesOfRow(Value rows) { return layoutOf(rows).getNames().drop_front(); }
static int64_t rowSize(Value rows) { return elementsOf(rows) / tensorOf(rows).getDimSize(0); }

// The experts' matrices: [e, from, to], or [e, to, from] where they are transposed.
static bool hasMatrices(Value matrices, Value from, Value to) {
  const auto joined = [&](ArrayRef<StringAttr> first, ArrayRef<StringAttr> second) {
    SmallVector<StringAttr> names(first);
    names.append(second.begin(), second.end());
    return names;
  };
  ArrayRef<StringAttr> names = layoutOf(matrices).getNames();
  const SmallVector<StringAttr> straight = joined(namesOfRow(from), namesOfRow(to)),
                                transposed = joined(namesOfRow(to), namesOfRow(from));
  const llvm::SmallDenseSet<StringAttr> all(straight.begin(), straight.end());
  return !names.empty() && all.size() == straight.size() && !all.contains(names.front()) &&
         (names.drop_front() == ArrayRef(straight) || names.drop_front() == ArrayRef(transposed));
}
// Precondition: hasMatrices.
static bool isTransposed(Value matrices, Value from) {
  ArrayRef<StringAttr> own = namesOfRow(from);
  return !own.empty() && layoutOf(matrices).getNames()[1] != own.front();
}

template <typename Op>
static LogicalResult verifyGrouped(Op op, Value matrices, Value from, Value to, StringRef constraint) {
  if (!hasMatrices(matrices, from, to))
    return op.emitOpError() << "has matrices " << layoutOf(matrices)
                            << "; expected the experts first, and then the last dimensions of the rows (" << constraint
                            << "_c1)";
  const Type type = elementOf(op.getLhs()), result = elementOf(op.getResult());
  if (elementOf(op.getRhs()) != type || (result != type && !result.isF32()))
    return op.emitOpError() << "multiplies " << type << " by " << elementOf(op.getRhs()) << " to " << result
                            << "; expected operands of one element type and a result of that type or f32 ("
                            << constraint << "_c2)";
  if (op.getOrder() && elementsOf(op.getOrder()) != tensorOf(matrices).getDimSize(0))
    return op.emitOpError() << "has counts of " << elementsOf(op.getOrder()) << " experts, and matrices of "
                            << tensorOf(matrices).getDimSize(0) << " (" << constraint << "_c4)";
  return verifyOrder(op, (constraint + "_c3").str().c_str());
}
LogicalResult GroupedEinsumOp::verify() {
  return verifyGrouped(*this, getRhs(), getLhs(), getResult(), "grouped_einsum");
}
LogicalResult GroupedEinsumGradOp::verify() {
  return verifyGrouped(*this, getResult(), getLhs(), getRhs(), "grouped_einsum_grad");
}

// --- gradients

template <typename Adjoint, typename Op> static LogicalResult contributeAdjoint(Op op, GradientBuilder &g) {
  if (Value dy = g.cotangent(op.getResult()); dy && g.wants(op.getValue()))
    g.contribute(op.getValue(), g.make<Adjoint>(op.getValue(), dy, op.getExperts(), Value(), op.getCountAttr(),
                                                DictionaryAttr(), ArrayAttr(), op.getCapacityAttr()));
  return success();
}
LogicalResult DispatchOp::buildGradient(GradientBuilder &g) { return contributeAdjoint<CombineOp>(*this, g); }
LogicalResult CombineOp::buildGradient(GradientBuilder &g) { return contributeAdjoint<DispatchOp>(*this, g); }
LogicalResult SpreadOp::buildGradient(GradientBuilder &g) { return contributeAdjoint<CollectOp>(*this, g); }
LogicalResult CollectOp::buildGradient(GradientBuilder &g) { return contributeAdjoint<SpreadOp>(*this, g); }

LogicalResult RowMaskOp::buildGradient(GradientBuilder &) { return success(); }

LogicalResult GroupedEinsumOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getResult());
  if (dy && g.wants(getLhs()))
    g.contribute(getLhs(), g.make<GroupedEinsumOp>(getLhs(), dy, getRhs(), getExperts(), Value(), DictionaryAttr(),
                                                   ArrayAttr(), getCapacityAttr()));
  if (dy && g.wants(getRhs()))
    g.contribute(getRhs(), g.make<GroupedEinsumGradOp>(getRhs(), getLhs(), dy, getExperts(), Value(), DictionaryAttr(),
                                                       ArrayAttr(), getCapacityAttr()));
  return success();
}

// --- instructions

InstructionCall GroupOp::getCall() {
  return {plan::GroupRows{.groups = elementsOf(getCounts()),
                          .rows = elementsOf(getExperts()),
                          .places = elementsOf(getSources()),
                          .axes = axesOf(getAxes())},
          {getExperts(), getCounts(), getPlaces(), getSources()}};
}

static plan::DropChoices describe(DropOp op) {
  const ArrayRef<int64_t> choices = tensorOf(op.getExperts()).getShape();
  return {.tokens = choices[0],
          .sequences = choices[1],
          .chosen = choices[2],
          .experts = int64_t(op.getCount()),
          .capacity = int64_t(op.getCapacity()),
          .together = int64_t(op.getTogether()),
          .byPosition = op.getByPosition()};
}
int64_t DropOp::getWorkspaceBytes() { return describe(*this).workspaceBytes().value_or(0); }
InstructionCall DropOp::getCall() { return {describe(*this), {getExperts(), getWeights(), getPositions(), getKept()}}; }

InstructionCall ExchangeOp::getCall() {
  const int64_t ranks = ranksAlong(*this, getAxes());
  const RankedTensorType tokens = tensorOf(getBack() ? getResult() : getValue()),
                         rows = tensorOf(getBack() ? getValue() : getResult());
  return {plan::ExchangeRows{.back = getBack(),
                             .type = dtypeOf(tokens.getElementType()),
                             .groups = elementsOf(getCounts()) / (ranks * ranks),
                             .rows = tokens.getDimSize(0),
                             .places = rows.getDimSize(0),
                             .width = tokens.getNumElements() / tokens.getDimSize(0),
                             .axes = axesOf(getAxes())},
          {getCounts(), getValue(), getResult()}};
}

static int64_t lastSize(Value value) { return tensorOf(value).getShape().back(); }
static double flopsOf(Value lhs, Value columns) { return 2.0 * elementsOf(lhs) * rowSize(columns); }

double GroupedEinsumOp::getFlops() { return flopsOf(getLhs(), getResult()); }
bool GroupedEinsumOp::canAccumulate() { return false; }
InstructionCall GroupedEinsumOp::getCall() {
  plan::GroupedGemm gemm{.form = plan::GroupedGemm::Form::rows};
  gemm.groups = tensorOf(getRhs()).getDimSize(0), gemm.rows = tensorOf(getLhs()).getDimSize(0);
  gemm.n = rowSize(getResult()), gemm.k = rowSize(getLhs());
  gemm.transposeB = isTransposed(getRhs(), getLhs());
  gemm.inputType = dtypeOf(elementOf(getLhs())), gemm.outputType = dtypeOf(elementOf(getResult()));
  return {gemm, {getLhs(), getRhs(), getOrder(), getResult()}};
}

double GroupedEinsumGradOp::getFlops() { return flopsOf(getLhs(), getRhs()); }
bool GroupedEinsumGradOp::canAccumulate() { return true; }
InstructionCall GroupedEinsumGradOp::getCall() {
  Value a = getLhs(), b = getRhs();
  if (isTransposed(getResult(), a))
    std::swap(a, b);
  plan::GroupedGemm gemm{.form = plan::GroupedGemm::Form::sums};
  gemm.groups = tensorOf(getResult()).getDimSize(0), gemm.rows = tensorOf(a).getDimSize(0);
  gemm.m = rowSize(a), gemm.n = rowSize(b);
  gemm.inputType = dtypeOf(elementOf(a)), gemm.outputType = dtypeOf(elementOf(getResult()));
  return {gemm, {a, b, getOrder(), getResult()}};
}

// --- row bodies

namespace {
using rowgen::Node;

// Element `index` of the value whose first dimensions, but for `columns` of them, count as one.
Node flatLoad(RowEmitter &e, Value value, int64_t columns, Node index) {
  const RowSpace::Dims dims = rowDims(value);
  int64_t size = 1;
  for (const RowSpace::NamedDim &dim : ArrayRef(dims).drop_back(columns))
    size *= dim.size;
  const rowgen::Dim flat = e.dim(StringAttr::get(value.getContext(), "flat" + Twine(size)), size);
  std::vector<rowgen::Dim> all = {flat};
  for (const RowSpace::NamedDim &dim : ArrayRef(dims).take_back(columns))
    all.push_back(e.dim(dim.name, dim.size));
  return e.graph().load(e.operand(value, rowgen::Access::in, all), {{flat, index}});
}

RowSpace spaceOf(Value result, int64_t columns) {
  const RowSpace::Dims dims = rowDims(result);
  const ArrayRef<RowSpace::NamedDim> all(dims);
  return {RowSpace::Kind::rows, RowSpace::Dims(all.drop_back(columns)), RowSpace::Dims(all.take_back(columns))};
}

LogicalResult lacksOrder(Operation *op) {
  return op->emitOpError("has no order of rows; expected one of mg-order-rows");
}

RowEmitter::Place placeIn(Value rows, Node place) { return {rowDims(rows).front().name, place}; }
} // namespace

RowSpace DispatchOp::getRowSpace() { return spaceOf(getResult(), 1); }
LogicalResult DispatchOp::emitRow(RowEmitter &e) {
  if (!getOrder())
    return lacksOrder(*this);
  const Node token = rowgen::divideI32(e.graph(), e.value(getOrder()), lastSize(getExperts()));
  e.define(getResult(), flatLoad(e, getValue(), 1, token));
  return success();
}

RowSpace CombineOp::getRowSpace() { return spaceOf(getResult(), 1); }
LogicalResult CombineOp::emitRow(RowEmitter &e) {
  if (!getOrder())
    return lacksOrder(*this);
  e.readCounted(getValue());
  const StringAttr choices = layoutOf(getOrder()).getNames().back();
  const auto row = [&](int64_t choice) {
    return e.value(getValue(), placeIn(getValue(), e.value(getOrder(), {choices, choice})));
  };
  Node sum = row(0);
  for (int64_t choice = 1; choice < lastSize(getOrder()); ++choice)
    sum = rowgen::add(e.graph(), sum, row(choice));
  e.define(getResult(), sum);
  return success();
}

RowSpace SpreadOp::getRowSpace() { return spaceOf(getResult(), 0); }
LogicalResult SpreadOp::emitRow(RowEmitter &e) {
  if (!getOrder())
    return lacksOrder(*this);
  e.define(getResult(), flatLoad(e, getValue(), 0, e.value(getOrder())));
  return success();
}

RowSpace RowMaskOp::getRowSpace() { return spaceOf(getResult(), 0); }
LogicalResult RowMaskOp::emitRow(RowEmitter &e) {
  if (!getOrder())
    return lacksOrder(*this);
  rowgen::RowGraph &g = e.graph();
  const Node choices = g.constantI32(elementsOf(getExperts()));
  e.define(getResult(), rowgen::select(g, lessI32(g, e.value(getOrder()), choices), g.constant(1), g.constant(0)));
  return success();
}

RowSpace RowCountOp::getRowSpace() { return {RowSpace::Kind::alone, {}, rowDims(getCounts())}; }
LogicalResult RowCountOp::emitRow(RowEmitter &e) {
  e.define(getResult(), e.sumOverColumns(e.value(getCounts())));
  return success();
}

RowSpace CollectOp::getRowSpace() { return spaceOf(getResult(), 0); }
LogicalResult CollectOp::emitRow(RowEmitter &e) {
  if (!getOrder())
    return lacksOrder(*this);
  e.readCounted(getValue());
  e.define(getResult(), e.value(getValue(), placeIn(getValue(), e.value(getOrder()))));
  return success();
}
