// Contractions, sums and products: verifiers, gradients, costs.
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"
#include "dialects/mg/Target.h"
#include "runtime/kernels/CudaGemm.h"

using namespace mlir;
using namespace mgc;

namespace {
bool namesWithin(Value inner, Value outer) {
  LayoutAttr outerLayout = layoutOf(outer);
  return llvm::all_of(layoutOf(inner).getNames(),
                      [&](StringAttr name) { return outerLayout.indexOf(name) >= 0; });
}
bool sameNames(Value a, Value b) { return layoutOf(a).getNames() == layoutOf(b).getNames(); }

// `value` summed over the dimensions that `like` lacks; itself when it lacks none.
Value sumTo(GradientBuilder &g, Value value, Value like) {
  return sameNames(value, like) ? value : g.make<SumOp>(like, value);
}
} // namespace

// --- einsum
// ---------------------------------------------------------------------------------------------------------

namespace {
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

bool startsWith(LayoutAttr layout, ArrayRef<StringAttr> run) {
  return layout.getNames().take_front(run.size()) == run;
}
} // namespace

FailureOr<EinsumOp::GemmShape> EinsumOp::getGemmShape() {
  LayoutAttr l = layoutOf(getLhs()), r = layoutOf(getRhs()), out = layoutOf(getResult());
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
  shape.m = productOf(getLhs(), leftKept);
  shape.n = productOf(getRhs(), rightKept);
  shape.k = productOf(getLhs(), leftSummed);
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

LogicalResult EinsumOp::verify() {
  LayoutAttr l = layoutOf(getLhs()), r = layoutOf(getRhs()), out = layoutOf(getResult());
  if (!l || !r || !out)
    return emitOpError("a type without #mg.layout (rule_c1)");
  for (StringAttr name : out.getNames())
    if ((l.indexOf(name) >= 0) == (r.indexOf(name) >= 0))
      return emitOpError() << "dimension '" << name.getValue()
                           << "' of the result must be in exactly one operand (einsum_c1)";
  for (StringAttr name : l.getNames())
    if (out.indexOf(name) < 0 && r.indexOf(name) < 0)
      return emitOpError() << "dimension '" << name.getValue()
                           << "' is summed but only in one operand (einsum_c1)";
  for (StringAttr name : r.getNames())
    if (out.indexOf(name) < 0 && l.indexOf(name) < 0)
      return emitOpError() << "dimension '" << name.getValue()
                           << "' is summed but only in one operand (einsum_c1)";
  if (failed(getGemmShape()))
    return emitOpError("kept and summed dimensions do not stand in runs of equal order (einsum_c2)");
  Type from = elementOf(getLhs()), to = elementOf(getResult());
  if (from != elementOf(getRhs()) || (to != from && !to.isF32()))
    return emitOpError() << "multiplies " << from << " by " << elementOf(getRhs()) << " to " << to
                         << "; expected operands of one element type and a result of that type or f32 "
                         << "(einsum_c3)";
  return success();
}

double EinsumOp::getFlops() {
  auto shape = getGemmShape();
  return failed(shape) ? 0.0 : 2.0 * shape->m * shape->n * shape->k;
}

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

// Precondition: the runs merge (einsum_c2).
LibraryCall EinsumOp::getCall() {
  GemmShape shape = *getGemmShape();
  plan::Gemm gemm;
  gemm.m = shape.m, gemm.n = shape.n, gemm.k = shape.k;
  gemm.inputType = dtypeOf(elementOf(getLhs())), gemm.outputType = dtypeOf(elementOf(getResult()));
  gemm.transposeA = shape.transposeLhs, gemm.transposeB = shape.transposeRhs;
  gemm.workspaceBytes = getWorkspaceBytes();
  Value a = getLhs(), b = getRhs();
  if (shape.swapOperands)
    std::swap(a, b);
  return {gemm, {a, b, getResult()}};
}
bool EinsumOp::canAccumulate() { return true; }
int64_t EinsumOp::getWorkspaceBytes() {
  return targetOf(*this) == plan::Target::cuda ? kCudaGemmWorkspaceBytes : 0;
}

// --- add
// ------------------------------------------------------------------------------------------------------------

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
// -----------------------------------------------------------------------------------------------------

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

// --- sum
// ------------------------------------------------------------------------------------------------------------

LogicalResult SumOp::verify() {
  SmallVector<StringAttr> kept;
  for (StringAttr name : layoutOf(getValue()).getNames())
    if (layoutOf(getResult()).indexOf(name) >= 0)
      kept.push_back(name);
  return layoutOf(getResult()).getNames() == ArrayRef<StringAttr>(kept)
             ? success()
             : emitOpError("names of the result must be names of the operand, in its order (sum_c1)");
}

LogicalResult SumOp::buildGradient(GradientBuilder &g) {
  if (g.cotangent(getResult()) && g.wants(getValue()))
    return emitOpError("has no gradient: a sum may only stand in a gradient or over data");
  return success();
}

// --- mul, scale
// -----------------------------------------------------------------------------------------------------

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
// -----------------------------------------------------------------------------------------------------------

LogicalResult CastOp::verify() {
  return elementOf(getValue()) != elementOf(getResult())
             ? success()
             : emitOpError() << "casts " << elementOf(getValue()) << " to itself (cast_c1)";
}

LogicalResult CastOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getResult()); dy && g.wants(getValue()))
    g.contribute(getValue(), g.make<CastOp>(getValue(), dy));
  return success();
}

// --- rename
// ---------------------------------------------------------------------------------------------------------

llvm::StringRef RenameOp::getRuleText() { return "~.. -> .."; }

AxisRule RenameOp::getAxisRule() {
  AxisRule rule = bindRule(getOperation(), getRuleText());
  rule.whole = {getFromAttr(), getToAttr()};
  return rule;
}

LogicalResult RenameOp::verify() {
  if (elementOf(getValue()) != elementOf(getResult()))
    return emitOpError() << "makes " << elementOf(getResult()) << " of " << elementOf(getValue())
                         << "; expected one element type (rename_c2)";
  SmallVector<StringAttr> names(layoutOf(getValue()).getNames());
  llvm::replace(names, getFromAttr(), getToAttr());
  return layoutOf(getResult()).getNames() == ArrayRef<StringAttr>(names)
             ? success()
             : emitOpError() << "the result must have the operand's names with '" << getFrom() << "' called '"
                             << getTo() << "' (rename_c1)";
}

LogicalResult RenameOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getResult()); dy && g.wants(getValue()))
    g.contribute(getValue(), g.make<RenameOp>(getValue(), dy, getToAttr(), getFromAttr()));
  return success();
}

// --- row bodies
// -----------------------------------------------------------------------------------------------------

LogicalResult AddOp::emitRow(RowEmitter &e) {
  e.define(getResult(), rowgen::add(e.graph(), e.value(getLhs()), e.value(getRhs())));
  return success();
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
