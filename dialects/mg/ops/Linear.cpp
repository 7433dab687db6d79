// Contractions, sums and products: verifiers, gradients, costs.
#include "dialects/mg/Complete.h"
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"
#include "dialects/mg/Target.h"
#include "plan/targets/CudaGemm.h"

using namespace mlir;
using namespace mgc;

namespace {
bool namesWithin(Value inner, Value outer) {
  LayoutAttr outerLayout = layoutOf(outer);
  return llvm::all_of(layoutOf(inner).getNames(), [&](StringAttr name) { return outerLayout.indexOf(name) >= 0; });
}
bool sameNames(Value a, Value b) { return layoutOf(a).getNames() == layoutOf(b).getNames(); }

// `value` summed over the dimensions that `like` lacks; itself when it lacks none.
Value sumTo(GradientBuilder &g, Value value, Value like) {
  return sameNames(value, like) ? value : g.make<SumOp>(like, value);
}
} // namespace

// --- einsum

namespace {
using GemmShape = EinsumOp::GemmShape;

// A maximal run of factors of one operand that belong together.
using Run = SmallVector<StringAttr>;

// The names of `layout` that are in `inside`, and whether they stand next to each other.
std::pair<Run, bool> runOf(LayoutAttr layout, LayoutAttr inside, bool wanted) {
  Run run;
  int64_t last = -1;
  bool contiguous = true;
  for (auto [i, name] : llvm::enumerate(layout.getNames())) {
    if ((inside.indexOf(name) >= 0) != wanted)
      continue;
    contiguous &= last < 0 || last + 1 == int64_t(i);
    last = i;
    run.push_back(name);
  }
  return {run, contiguous};
}

int64_t productOf(Value value, ArrayRef<StringAttr> names) {
  int64_t product = 1;
  for (StringAttr name : names)
    product *= tensorOf(value).getDimSize(layoutOf(value).indexOf(name));
  return product;
}

bool startsWith(LayoutAttr layout, ArrayRef<StringAttr> run) { return layout.getNames().take_front(run.size()) == run; }
} // namespace

static FailureOr<GemmShape> gemmShapeOf(Value lhs, Value rhs, Value result) {
  LayoutAttr l = layoutOf(lhs), r = layoutOf(rhs), out = layoutOf(result);
  auto [leftKept, leftKeptRun] = runOf(l, out, true);
  auto [leftSummed, leftSummedRun] = runOf(l, out, false);
  auto [rightKept, rightKeptRun] = runOf(r, out, true);
  auto [rightSummed, rightSummedRun] = runOf(r, out, false);
  if (!leftKeptRun || !leftSummedRun || !rightKeptRun || !rightSummedRun || leftSummed != rightSummed)
    return failure();
  GemmShape shape;
  Run straight = leftKept, swapped = rightKept;
  straight.append(rightKept);
  swapped.append(leftKept);
  if (out.getNames() == ArrayRef<StringAttr>(straight))
    shape.swapOperands = false;
  else if (out.getNames() == ArrayRef<StringAttr>(swapped))
    shape.swapOperands = true;
  else
    return failure();
  shape.m = productOf(lhs, leftKept);
  shape.n = productOf(rhs, rightKept);
  shape.k = productOf(lhs, leftSummed);
  shape.transposeLhs = !startsWith(l, leftKept);    // stored [k, m]
  shape.transposeRhs = !startsWith(r, rightSummed); // stored [n, k]
  if (shape.swapOperands) {                         // C^T = op(B)^T op(A)^T
    std::swap(shape.m, shape.n);
    bool left = shape.transposeLhs, right = shape.transposeRhs;
    shape.transposeLhs = !right;
    shape.transposeRhs = !left;
  }
  return shape;
}

FailureOr<GemmShape> EinsumOp::getGemmShape() { return gemmShapeOf(getLhs(), getRhs(), getResult()); }

// Checks that the op's first two operands make the result: einsum_c1 to einsum_c3.
static LogicalResult verifyProduct(Operation *op, Value result) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  LayoutAttr l = layoutOf(lhs), r = layoutOf(rhs), out = layoutOf(result);
  if (!l || !r || !out)
    return op->emitOpError("a type without #mg.layout (rule_c1)");
  for (StringAttr name : out.getNames())
    if ((l.indexOf(name) >= 0) == (r.indexOf(name) >= 0))
      return op->emitOpError() << "dimension '" << name.getValue()
                               << "' of the result must be in exactly one operand (einsum_c1)";
  for (StringAttr name : l.getNames())
    if (out.indexOf(name) < 0 && r.indexOf(name) < 0)
      return op->emitOpError() << "dimension '" << name.getValue() << "' is summed but only in one operand (einsum_c1)";
  for (StringAttr name : r.getNames())
    if (out.indexOf(name) < 0 && l.indexOf(name) < 0)
      return op->emitOpError() << "dimension '" << name.getValue() << "' is summed but only in one operand (einsum_c1)";
  if (failed(gemmShapeOf(lhs, rhs, result)))
    return op->emitOpError("kept and summed dimensions do not stand in runs of equal order (einsum_c2)");
  Type from = elementOf(lhs), to = elementOf(result);
  if (from != elementOf(rhs) || (to != from && !to.isF32()))
    return op->emitOpError() << "multiplies " << from << " by " << elementOf(rhs) << " to " << to
                             << "; expected operands of one element type and a result of that type or f32 "
                             << "(einsum_c3)";
  return success();
}

LogicalResult EinsumOp::verify() { return verifyProduct(*this, getResult()); }

static double flopsOf(FailureOr<GemmShape> shape) { return failed(shape) ? 0.0 : 2.0 * shape->m * shape->n * shape->k; }
double EinsumOp::getFlops() { return flopsOf(getGemmShape()); }

LogicalResult EinsumOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getResult());
  if (!dy)
    return success();
  if (g.wants(getLhs()))
    g.contribute(getLhs(), g.make<EinsumOp>(getLhs(), dy, getRhs()));
  if (g.wants(getRhs()))
    g.contribute(getRhs(), g.make<EinsumOp>(getRhs(), getLhs(), dy));
  return success();
}

// The matrix product, and its operands A and B. Precondition: the runs merge (einsum_c2).
static std::pair<plan::Gemm, SmallVector<Value, 12>> gemmOf(Operation *op, Value result) {
  Value a = op->getOperand(0), b = op->getOperand(1);
  GemmShape shape = *gemmShapeOf(a, b, result);
  plan::Gemm gemm;
  gemm.m = shape.m, gemm.n = shape.n, gemm.k = shape.k;
  gemm.inputType = dtypeOf(elementOf(a)), gemm.outputType = dtypeOf(elementOf(result));
  gemm.transposeA = shape.transposeLhs, gemm.transposeB = shape.transposeRhs;
  gemm.workspaceBytes = workspaceBytes(op);
  if (shape.swapOperands)
    std::swap(a, b);
  return {gemm, {a, b}};
}

InstructionCall EinsumOp::getCall() {
  auto [gemm, operands] = gemmOf(*this, getResult());
  operands.push_back(getResult());
  return {gemm, operands};
}
bool EinsumOp::canAccumulate() { return true; }
static int64_t productWorkspaceBytes(Operation *op) {
  return targetOf(op) == plan::Target::cuda ? kCudaGemmWorkspaceBytes : 0;
}
int64_t EinsumOp::getWorkspaceBytes() { return productWorkspaceBytes(*this); }

// --- linear

// The columns are the product of the last dimensions, so that a bias with their names and as many elements has them all.
bool LinearOp::canBeBias(Value value, Value result, int64_t columns) {
  ArrayRef<StringAttr> names = layoutOf(result).getNames(), own = layoutOf(value).getNames();
  return own.size() <= names.size() && names.take_back(own.size()) == own &&
         tensorOf(value).getNumElements() == columns && elementOf(value) == elementOf(result);
}

LogicalResult LinearOp::verify() {
  if (failed(verifyProduct(*this, getResult())))
    return failure();
  int64_t columns = gemmShapeOf(getLhs(), getRhs(), getResult())->n;
  if (elementOf(getBias()) != elementOf(getResult()))
    return emitOpError() << "adds a bias of " << elementOf(getBias()) << " to " << elementOf(getResult())
                         << "; expected one element type (linear_c2)";
  if (!canBeBias(getBias(), getResult(), columns))
    return emitOpError() << "the bias must have the last names of the result, and one element for each of " << columns
                         << " columns (linear_c1)";
  return success();
}

double LinearOp::getFlops() { return flopsOf(gemmShapeOf(getLhs(), getRhs(), getResult())); }
int64_t LinearOp::getWorkspaceBytes() { return productWorkspaceBytes(*this); }

InstructionCall LinearOp::getCall() {
  auto [gemm, operands] = gemmOf(*this, getResult());
  gemm.epilogue = plan::Epilogue::bias;
  operands.append({getBias(), getResult()});
  return {gemm, operands};
}

// --- add

LogicalResult AddOp::verify() {
  return namesWithin(getRhs(), getLhs()) && sameNames(getLhs(), getResult())
             ? success()
             : emitOpError("names of rhs must be names of lhs, and the result has those of lhs (add_c1)");
}

LogicalResult AddOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getResult());
  if (dy && g.wants(getLhs()))
    g.contribute(getLhs(), dy);
  if (dy && g.wants(getRhs()))
    g.contribute(getRhs(), sumTo(g, dy, getRhs()));
  return success();
}

// --- accumulate

LogicalResult AccumulateOp::verify() {
  if (getSigns().size() != getValues().size() || getValues().empty() ||
      llvm::any_of(getSigns(), [](int64_t sign) { return sign != 1 && sign != -1; }))
    return emitOpError("one sign, 1 or -1, per operand expected (accumulate_c1)");
  return success();
}

LogicalResult AccumulateOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getResult());
  for (auto [value, sign] : llvm::zip(getValues(), getSigns()))
    if (dy && g.wants(value))
      g.contribute(value, sign == 1 ? dy : g.make<ScaleOp>(value, dy, g.builder().getF64FloatAttr(-1)));
  return success();
}

// --- sum, broadcast

// Whether the names of `part` are names of `all`, in its order.
static bool isPartOf(Value part, Value all) {
  SmallVector<StringAttr> kept;
  for (StringAttr name : layoutOf(all).getNames())
    if (layoutOf(part).indexOf(name) >= 0)
      kept.push_back(name);
  return layoutOf(part).getNames() == ArrayRef<StringAttr>(kept);
}

LogicalResult SumOp::verify() {
  return isPartOf(getResult(), getValue())
             ? success()
             : emitOpError("names of the result must be names of the operand, in its order (sum_c1)");
}

LogicalResult SumOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getResult()); dy && g.wants(getValue()))
    g.contribute(getValue(), g.make<BroadcastOp>(getValue(), dy));
  return success();
}

LogicalResult BroadcastOp::verify() {
  return isPartOf(getValue(), getResult())
             ? success()
             : emitOpError("names of the operand must be names of the result, in its order (broadcast_c1)");
}

LogicalResult BroadcastOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getResult()); dy && g.wants(getValue()))
    g.contribute(getValue(), g.make<SumOp>(getValue(), dy));
  return success();
}

// --- mul, scale

LogicalResult MulOp::verify() {
  return namesWithin(getRhs(), getLhs()) && sameNames(getLhs(), getResult())
             ? success()
             : emitOpError("names of rhs must be names of lhs, and the result has those of lhs (mul_c1)");
}

LogicalResult MulOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getResult());
  if (dy && g.wants(getLhs()))
    g.contribute(getLhs(), g.make<MulOp>(getLhs(), dy, getRhs()));
  if (dy && g.wants(getRhs()))
    g.contribute(getRhs(), sumTo(g, g.make<MulOp>(getLhs(), dy, getLhs()), getRhs()));
  return success();
}

LogicalResult ScaleOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getResult());
  if (dy && g.wants(getValue()))
    g.contribute(getValue(), g.make<ScaleOp>(getValue(), dy, getFactorAttr()));
  return success();
}

// --- cast

LogicalResult CastOp::verify() {
  return elementOf(getValue()) != elementOf(getResult())
             ? success()
             : emitOpError() << "casts " << elementOf(getValue()) << " to itself (cast_c1)";
}

LogicalResult CastOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getResult());
  if (!dy || !g.wants(getValue()))
    return success();
  Value back = g.make<CastOp>(getValue(), dy);
  if (Attribute complete = (*this)->getAttr(kCompleteAttr))
    back.getDefiningOp()->setAttr(kCompleteAttr, complete);
  g.contribute(getValue(), back);
  return success();
}

// --- rename

llvm::StringRef RenameOp::getRuleText() { return "~.. -> .."; }

AxisRule RenameOp::getAxisRule() {
  AxisRule rule = bindRule(getOperation(), getRuleText());
  rule.rings = {getFromAttr(), getToAttr()};
  return rule;
}

LogicalResult RenameOp::verify() {
  if (elementOf(getValue()) != elementOf(getResult()))
    return emitOpError() << "makes " << elementOf(getResult()) << " of " << elementOf(getValue())
                         << "; expected one element type (rename_c2)";
  SmallVector<StringAttr> names(layoutOf(getValue()).getNames());
  llvm::replace(names, getFromAttr(), getToAttr());
  if (layoutOf(getResult()).getNames() != ArrayRef<StringAttr>(names))
    return emitOpError() << "the result must have the operand's names with '" << getFrom() << "' called '" << getTo()
                         << "' (rename_c1)";
  if (layoutOf(getResult()).getAxes() != layoutOf(getValue()).getAxes())
    return emitOpError() << "splits '" << getFrom() << "' over " << layoutOf(getValue()).axesOf(getFromAttr())
                         << " and '" << getTo() << "' over " << layoutOf(getResult()).axesOf(getToAttr())
                         << "; expected the same axes (rename_c3)";
  return success();
}

LogicalResult RenameOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getResult());
  if (!dy || !g.wants(getValue()))
    return success();
  Value back = g.make<RenameOp>(getValue(), dy, getToAttr(), getFromAttr());
  copyTag(*this, back.getDefiningOp());
  g.contribute(getValue(), back);
  return success();
}

// --- row bodies

LogicalResult AddOp::emitRow(RowEmitter &e) {
  e.define(getResult(), rowgen::add(e.graph(), e.value(getLhs()), e.value(getRhs())));
  return success();
}

RowSpace AccumulateOp::getRowSpace() {
  RowSpace space = rowSpaceOf(*this);
  if (getApart())
    space.kind = RowSpace::Kind::alone;
  return space;
}
LogicalResult AccumulateOp::emitRow(RowEmitter &e) {
  rowgen::Node sum;
  for (auto [value, sign] : llvm::zip(getValues(), getSigns())) {
    rowgen::Node node = e.value(value);
    if (sum.id < 0)
      sum = sign == 1 ? node : rowgen::scale(e.graph(), node, -1);
    else
      sum = sign == 1 ? rowgen::add(e.graph(), sum, node) : rowgen::sub(e.graph(), sum, node);
  }
  e.define(getResult(), sum);
  return success();
}

LogicalResult SumOp::emitRow(RowEmitter &e) {
  if (rowSpaceOf(*this).kind == RowSpace::Kind::columns)
    e.sumOverRows(getResult(), e.value(getValue()));
  else
    e.define(getResult(), e.sumOverColumns(e.value(getValue())));
  return success();
}

LogicalResult BroadcastOp::emitRow(RowEmitter &e) {
  e.define(getResult(), e.value(getValue()));
  return success();
}

LogicalResult MulOp::emitRow(RowEmitter &e) {
  e.define(getResult(), rowgen::mul(e.graph(), e.value(getLhs()), e.value(getRhs())));
  return success();
}

LogicalResult CastOp::emitRow(RowEmitter &e) {
  e.define(getResult(), e.value(getValue())); // in f32; a store rounds
  return success();
}

LogicalResult ScaleOp::emitRow(RowEmitter &e) {
  e.define(getResult(), rowgen::scale(e.graph(), e.value(getValue()), getFactor().convertToDouble()));
  return success();
}
