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

LogicalResult AdamWOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  auto scalar = [&](llvm::StringRef name) { return stepScalar(e, getScalars(), name); };
  auto blend = [&](Node beta, Node old, Node now) { // beta old + (1 - beta) now
    return add(g, mul(g, beta, old), mul(g, sub(g, g.constant(1), beta), now));
  };
  Node lr = scalar("lr"), value = e.value(getValue()), gradient = mul(g, e.value(getGradient()), e.value(getFactor()));
  if (getDecay())
    value = mul(g, value, sub(g, g.constant(1), mul(g, lr, scalar("weight_decay"))));
  Node first = blend(scalar("beta1"), e.value(getFirstMoment()), gradient);
  Node second = blend(scalar("beta2"), e.value(getSecondMoment()), mul(g, gradient, gradient));
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
