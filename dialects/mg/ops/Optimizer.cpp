// The step's end: row bodies.
#include "dialects/mg/RowEmitter.h"
#include "plan/StepScalars.h"

using namespace mlir;
using namespace mgc;
using rowgen::add;
using rowgen::div;
using rowgen::mul;
using rowgen::Node;
using rowgen::sub;

LogicalResult SumSquaresOp::verify() {
  ArrayRef<StringAttr> names = layoutOf(getValue()).getNames(), kept = layoutOf(getResult()).getNames();
  return kept.size() < names.size() && kept == names.take_front(kept.size())
             ? success()
             : emitOpError("names of the result must be the first ones of the operand, not all (sum_squares_c1)");
}

LogicalResult SumSquaresOp::emitRow(RowEmitter &e) {
  Node value = e.value(getValue());
  e.define(getResult(), e.sumOverColumns(mul(e.graph(), value, value)));
  return success();
}

LogicalResult ClipFactorOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  Node zero = g.constant(0), one = g.constant(1), clip = e.value(getClip()), tokens = e.value(getTokens());
  Node hasTokens = greater(g, tokens, zero);
  Node share = rowgen::select(g, hasTokens, div(g, one, tokens), zero);
  Node norm = mul(g, rowgen::sqrt(g, e.value(getSumSquares())), share);
  Node bound = div(g, clip, rowgen::shift(g, norm, 1e-6));
  Node clipped = rowgen::select(g, greater(g, one, bound), bound, one);
  e.define(getNorm(), norm);
  e.define(getFactor(), mul(g, rowgen::select(g, greater(g, clip, zero), clipped, one), share));
  return success();
}

static Node stepScalar(RowEmitter &e, Value scalars, llvm::StringRef name) {
  return e.value(scalars, {layoutOf(scalars).getNames()[0], int64_t(plan::scalarNamed(name))});
}

// beta old + (1 - beta) now
static Node blend(rowgen::RowGraph &g, Node beta, Node old, Node now) {
  return add(g, mul(g, beta, old), mul(g, sub(g, g.constant(1), beta), now));
}

// value (1 - lr weight_decay)
static Node decayed(RowEmitter &e, Value scalars, Node value) {
  rowgen::RowGraph &g = e.graph();
  Node rate = mul(g, stepScalar(e, scalars, "lr"), stepScalar(e, scalars, "weight_decay"));
  return mul(g, value, sub(g, g.constant(1), rate));
}

LogicalResult AdamWOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  auto scalar = [&](llvm::StringRef name) { return stepScalar(e, getScalars(), name); };
  Node lr = scalar("lr"), value = e.value(getValue()), gradient = mul(g, e.value(getGradient()), e.value(getFactor()));
  if (getDecay())
    value = decayed(e, getScalars(), value);
  Node first = blend(g, scalar("beta1"), e.value(getFirstMoment()), gradient);
  Node second = blend(g, scalar("beta2"), e.value(getSecondMoment()), mul(g, gradient, gradient));
  Node root = rowgen::sqrt(g, div(g, second, scalar("bias_correction2")));
  Node step = div(g, div(g, first, scalar("bias_correction1")), add(g, root, scalar("eps")));
  e.define(getNewFirstMoment(), first);
  e.define(getNewSecondMoment(), second);
  e.define(getNewValue(), sub(g, value, mul(g, lr, step)));
  return success();
}

LogicalResult SgdOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  Node value = e.value(getValue()), gradient = mul(g, e.value(getGradient()), e.value(getFactor()));
  if (getDecay())
    gradient = add(g, gradient, mul(g, stepScalar(e, getScalars(), "weight_decay"), value));
  Node old = mul(g, stepScalar(e, getScalars(), "momentum"), e.value(getMomentumBuffer()));
  Node buffer = add(g, old, gradient);
  e.define(getNewMomentumBuffer(), buffer);
  e.define(getNewValue(), sub(g, value, mul(g, stepScalar(e, getScalars(), "lr"), buffer)));
  return success();
}

LogicalResult LionOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  auto scalar = [&](llvm::StringRef name) { return stepScalar(e, getScalars(), name); };
  Node value = e.value(getValue()), gradient = mul(g, e.value(getGradient()), e.value(getFactor()));
  if (getDecay())
    value = decayed(e, getScalars(), value);
  Node old = e.value(getMoment()), zero = g.constant(0), mix = blend(g, scalar("lion_beta1"), old, gradient);
  Node notAbove = rowgen::select(g, greater(g, zero, mix), g.constant(-1), mix); // the sign of 0 is 0, of NaN NaN
  Node sign = rowgen::select(g, greater(g, mix, zero), g.constant(1), notAbove);
  e.define(getNewMoment(), blend(g, scalar("lion_beta2"), old, gradient));
  e.define(getNewValue(), sub(g, value, mul(g, scalar("lr"), sign)));
  return success();
}

LogicalResult BalanceBiasOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  Node value = e.value(getValue()), load = e.value(getLoad());
  Node mean = g.constant(getMean().convertToDouble()), zero = g.constant(0);
  Node rate = stepScalar(e, getScalars(), "router_bias_rate");
  Node up = rowgen::select(g, greater(g, mean, load), rate, zero);
  Node down = rowgen::select(g, greater(g, load, mean), rate, zero);
  e.define(getNewValue(), add(g, value, sub(g, up, down)));
  return success();
}
