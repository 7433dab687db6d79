// Activation functions: verifiers, gradients.
#include "codegen/rows/graph/Math.h"
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"
#include <cmath>

using namespace mlir;
using namespace mgc;

template <typename Op> static LogicalResult verifyForm(Op op) {
  return op.getForm() == "erf" || op.getForm() == "tanh" || op.getForm() == "sigmoid"
             ? success()
             : op.emitOpError() << "form is '" << op.getForm()
                                << "'; expected erf, tanh or sigmoid (gelu_c1)";
}
LogicalResult GeluOp::verify() { return verifyForm(*this); }
LogicalResult GeluGradOp::verify() { return verifyForm(*this); }
LogicalResult GeluOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<GeluGradOp>(getX(), getX(), dy, getFormAttr()));
  return success();
}
LogicalResult SiluOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<SiluGradOp>(getX(), getX(), dy));
  return success();
}
LogicalResult SigmoidOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<SigmoidGradOp>(getX(), getX(), dy));
  return success();
}
LogicalResult ReluOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<ReluGradOp>(getX(), getX(), dy));
  return success();
}

template <typename Op> static LogicalResult verifyBounds(Op op, StringRef constraint) {
  const std::optional<APFloat> least = op.getLeast(), most = op.getMost();
  const auto isBound = [](const std::optional<APFloat> &bound) { return !bound || bound->isFinite(); };
  if ((least || most) && isBound(least) && isBound(most) && !(least && most && !(*least < *most)))
    return success();
  return op.emitOpError() << "has the bounds " << op.getLeastAttr() << " and " << op.getMostAttr()
                          << "; expected one or both, finite, least below most (" << constraint << ")";
}
LogicalResult ClampOp::verify() { return verifyBounds(*this, "clamp_c1"); }
LogicalResult ClampGradOp::verify() { return verifyBounds(*this, "clamp_grad_c1"); }
LogicalResult ClampOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<ClampGradOp>(getX(), getX(), dy, getLeastAttr(), getMostAttr()));
  return success();
}

// --- row bodies
// -----------------------------------------------------------------------------------------------------

namespace {
using rowgen::Node;
using rowgen::RowGraph;

// dy * derivative, for the gradients below.
template <typename Op> LogicalResult defineGradient(Op op, RowEmitter &e, Node derivative) {
  e.define(op.getDx(), rowgen::mul(e.graph(), derivative, e.value(op.getDy())));
  return success();
}

// The derivative of x s(x), s a sigmoid whose argument has derivative `slope`: s + x s (1 - s) slope.
Node swishDerivative(RowGraph &g, Node x, Node s, Node slope) {
  Node rest = rowgen::mul(g, s, rowgen::shift(g, rowgen::scale(g, s, -1), 1));
  return rowgen::add(g, s, rowgen::mul(g, rowgen::mul(g, x, rest), slope));
}

// Phi(x) = erfc(-x / sqrt(2)) / 2, without the cancellation of 1 + erf.
Node normalCdf(RowGraph &g, Node x) {
  rowgen::Body body = [](OpBuilder &b, Location loc, ValueRange v) { return rowgen::emitErfc(b, loc, v[0]); };
  Node erfc = g.map("erfc", body, {rowgen::scale(g, x, -M_SQRT1_2)}, rowgen::Element::f32, 45);
  return rowgen::scale(g, erfc, 0.5);
}

// GELU's tanh form is x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
constexpr double kTanhScale = 2 * 0.79788456080286535588, kCubic = 0.044715;
Node tanhArgument(RowGraph &g, Node x, double cubic) { // 2 sqrt(2 / pi) (1 + cubic x^2)
  return rowgen::scale(g, rowgen::shift(g, rowgen::scale(g, rowgen::mul(g, x, x), cubic), 1), kTanhScale);
}
constexpr double kQuick = 1.702;
} // namespace

bool GeluOp::isDear() { return true; }
LogicalResult GeluOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node x = e.value(getX()), gate;
  if (getForm() == "erf")
    gate = normalCdf(g, x);
  else if (getForm() == "tanh")
    gate = rowgen::sigmoid(g, rowgen::mul(g, x, tanhArgument(g, x, kCubic)));
  else
    gate = rowgen::sigmoid(g, rowgen::scale(g, x, kQuick));
  e.define(getY(), rowgen::mul(g, x, gate));
  return success();
}

bool GeluGradOp::isDear() { return true; }
LogicalResult GeluGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node x = e.value(getX());
  if (getForm() == "erf") {
    Node density = rowgen::scale(g, rowgen::exp(g, rowgen::scale(g, rowgen::mul(g, x, x), -0.5)),
                                 M_2_SQRTPI * M_SQRT1_2 / 2);
    return defineGradient(*this, e, rowgen::add(g, normalCdf(g, x), rowgen::mul(g, x, density)));
  }
  if (getForm() == "tanh") {
    Node s = rowgen::sigmoid(g, rowgen::mul(g, x, tanhArgument(g, x, kCubic)));
    return defineGradient(*this, e, swishDerivative(g, x, s, tanhArgument(g, x, 3 * kCubic)));
  }
  Node s = rowgen::sigmoid(g, rowgen::scale(g, x, kQuick));
  return defineGradient(*this, e, swishDerivative(g, x, s, g.constant(kQuick)));
}

bool SiluOp::isDear() { return true; }
LogicalResult SiluOp::emitRow(RowEmitter &e) {
  Node x = e.value(getX());
  e.define(getY(), rowgen::mul(e.graph(), x, rowgen::sigmoid(e.graph(), x)));
  return success();
}

bool SiluGradOp::isDear() { return true; }
LogicalResult SiluGradOp::emitRow(RowEmitter &e) {
  Node x = e.value(getX()), s = rowgen::sigmoid(e.graph(), x);
  return defineGradient(*this, e, swishDerivative(e.graph(), x, s, e.graph().constant(1)));
}

bool SigmoidOp::isDear() { return true; }
LogicalResult SigmoidOp::emitRow(RowEmitter &e) {
  e.define(getY(), rowgen::sigmoid(e.graph(), e.value(getX())));
  return success();
}

// 1 - sigmoid(x) = sigmoid(-x) does not cancel.
bool SigmoidGradOp::isDear() { return true; }
LogicalResult SigmoidGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node x = e.value(getX());
  Node slope = rowgen::mul(g, rowgen::sigmoid(g, x), rowgen::sigmoid(g, rowgen::scale(g, x, -1)));
  return defineGradient(*this, e, slope);
}

LogicalResult ClampOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node x = e.value(getX());
  if (getMost()) {
    Node most = g.constant(getMost()->convertToDouble());
    x = rowgen::select(g, greater(g, x, most), most, x);
  }
  if (getLeast()) {
    Node least = g.constant(getLeast()->convertToDouble());
    x = rowgen::select(g, greater(g, least, x), least, x);
  }
  e.define(getY(), x);
  return success();
}

LogicalResult ClampGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node x = e.value(getX()), zero = g.constant(0), dy = e.value(getDy());
  if (getMost())
    dy = rowgen::select(g, greater(g, x, g.constant(getMost()->convertToDouble())), zero, dy);
  if (getLeast())
    dy = rowgen::select(g, greater(g, g.constant(getLeast()->convertToDouble()), x), zero, dy);
  e.define(getDx(), dy);
  return success();
}

LogicalResult ReluOp::emitRow(RowEmitter &e) {
  e.define(getY(), rowgen::max(e.graph(), e.value(getX()), e.graph().constant(0)));
  return success();
}

LogicalResult ReluGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node zero = g.constant(0), positive = greater(g, e.value(getX()), zero);
  e.define(getDx(), rowgen::select(g, positive, e.value(getDy()), zero));
  return success();
}
