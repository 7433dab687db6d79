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
             : op.emitOpError() << "form is '" << op.getForm() << "'; expected erf, tanh or sigmoid (gelu_c1)";
}
LogicalResult GeluOp::verify() { return verifyForm(*this); }
LogicalResult GeluGradOp::verify() { return verifyForm(*this); }
LogicalResult GeluOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<GeluGradOp>(getX(), getX(), dy, getFormAttr()));
  return success();
}

// The gradient of a function of x alone.
template <typename GradOp, typename Op> static LogicalResult buildUnaryGradient(Op op, GradientBuilder &g) {
  if (Value dy = g.cotangent(op.getY()); dy && g.wants(op.getX()))
    g.contribute(op.getX(), g.make<GradOp>(op.getX(), op.getX(), dy));
  return success();
}
LogicalResult SiluOp::buildGradient(GradientBuilder &g) { return buildUnaryGradient<SiluGradOp>(*this, g); }
LogicalResult SigmoidOp::buildGradient(GradientBuilder &g) { return buildUnaryGradient<SigmoidGradOp>(*this, g); }
LogicalResult TanhOp::buildGradient(GradientBuilder &g) { return buildUnaryGradient<TanhGradOp>(*this, g); }
LogicalResult MishOp::buildGradient(GradientBuilder &g) { return buildUnaryGradient<MishGradOp>(*this, g); }
LogicalResult LaplaceOp::buildGradient(GradientBuilder &g) { return buildUnaryGradient<LaplaceGradOp>(*this, g); }
LogicalResult HardSwishOp::buildGradient(GradientBuilder &g) { return buildUnaryGradient<HardSwishGradOp>(*this, g); }

template <typename Op> static LogicalResult verifyRelu(Op op, StringRef constraint) {
  const std::optional<APFloat> most = op.getMost();
  if (op.getSlope().isFinite() && (!most || (most->isFinite() && *most > APFloat(0.0))))
    return success();
  return op.emitOpError() << "has the slope " << op.getSlope().convertToDouble() << " and most = " << op.getMostAttr()
                          << "; expected finite ones, most positive (" << constraint << ")";
}
LogicalResult ReluOp::verify() { return verifyRelu(*this, "relu_c1"); }
LogicalResult ReluGradOp::verify() { return verifyRelu(*this, "relu_grad_c1"); }
LogicalResult ReluOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<ReluGradOp>(getX(), getX(), dy, getSlopeAttr(), getMostAttr()));
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

// The normal density.
Node normalDensity(RowGraph &g, Node x) {
  return rowgen::scale(g, rowgen::exp(g, rowgen::scale(g, rowgen::mul(g, x, x), -0.5)), M_2_SQRTPI * M_SQRT1_2 / 2);
}
} // namespace

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

LogicalResult GeluGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node x = e.value(getX());
  if (getForm() == "erf")
    return defineGradient(*this, e, rowgen::add(g, normalCdf(g, x), rowgen::mul(g, x, normalDensity(g, x))));
  if (getForm() == "tanh") {
    Node s = rowgen::sigmoid(g, rowgen::mul(g, x, tanhArgument(g, x, kCubic)));
    return defineGradient(*this, e, swishDerivative(g, x, s, tanhArgument(g, x, 3 * kCubic)));
  }
  Node s = rowgen::sigmoid(g, rowgen::scale(g, x, kQuick));
  return defineGradient(*this, e, swishDerivative(g, x, s, g.constant(kQuick)));
}

LogicalResult SiluOp::emitRow(RowEmitter &e) {
  Node x = e.value(getX());
  e.define(getY(), rowgen::mul(e.graph(), x, rowgen::sigmoid(e.graph(), x)));
  return success();
}

LogicalResult SiluGradOp::emitRow(RowEmitter &e) {
  Node x = e.value(getX()), s = rowgen::sigmoid(e.graph(), x);
  return defineGradient(*this, e, swishDerivative(e.graph(), x, s, e.graph().constant(1)));
}

LogicalResult SigmoidOp::emitRow(RowEmitter &e) {
  e.define(getY(), rowgen::sigmoid(e.graph(), e.value(getX())));
  return success();
}

// 1 - sigmoid(x) = sigmoid(-x) does not cancel.
static Node sigmoidDerivative(RowGraph &g, Node x) {
  return rowgen::mul(g, rowgen::sigmoid(g, x), rowgen::sigmoid(g, rowgen::scale(g, x, -1)));
}

LogicalResult SigmoidGradOp::emitRow(RowEmitter &e) {
  return defineGradient(*this, e, sigmoidDerivative(e.graph(), e.value(getX())));
}

LogicalResult TanhOp::emitRow(RowEmitter &e) {
  e.define(getY(), rowgen::tanh(e.graph(), e.value(getX())));
  return success();
}

// tanh(x) = 2 sigmoid(2 x) - 1.
LogicalResult TanhGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node slope = sigmoidDerivative(g, rowgen::scale(g, e.value(getX()), 2));
  return defineGradient(*this, e, rowgen::scale(g, slope, 4));
}

// With u = exp(x) and n = u (u + 2), tanh(log(1 + u)) = n / (n + 2): nothing cancels. From x = 20 on it is 1 in f32, and x is
// no more than that here, so that (n + 2)^2 is finite.
namespace {
struct Mish {
  Node x, u, sum, gate; // sum: n + 2
  Mish(RowGraph &g, Node unbounded) {
    Node most = g.constant(20);
    x = rowgen::select(g, greater(g, unbounded, most), most, unbounded);
    u = rowgen::exp(g, x);
    Node n = rowgen::mul(g, u, rowgen::shift(g, u, 2));
    sum = rowgen::shift(g, n, 2);
    gate = rowgen::div(g, n, sum);
  }
};
} // namespace

LogicalResult MishOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node x = e.value(getX());
  e.define(getY(), rowgen::mul(g, x, Mish(g, x).gate));
  return success();
}

// The derivative of the gate is 4 u (u + 1) / (n + 2)^2.
LogicalResult MishGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  const Mish mish(g, e.value(getX()));
  Node rise = rowgen::scale(g, rowgen::mul(g, mish.u, rowgen::shift(g, mish.u, 1)), 4);
  Node slope = rowgen::div(g, rise, rowgen::mul(g, mish.sum, mish.sum));
  return defineGradient(*this, e, rowgen::add(g, mish.gate, rowgen::mul(g, mish.x, slope)));
}

static constexpr double kLaplaceMean = 0.707107, kLaplaceDeviation = 0.282095;
static Node laplaceArgument(RowGraph &g, Node x) {
  return rowgen::scale(g, rowgen::shift(g, x, -kLaplaceMean), 1 / kLaplaceDeviation);
}

LogicalResult LaplaceOp::emitRow(RowEmitter &e) {
  e.define(getY(), normalCdf(e.graph(), laplaceArgument(e.graph(), e.value(getX()))));
  return success();
}

LogicalResult LaplaceGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node density = normalDensity(g, laplaceArgument(g, e.value(getX())));
  return defineGradient(*this, e, rowgen::scale(g, density, 1 / kLaplaceDeviation));
}

LogicalResult HardSwishOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node x = e.value(getX()), zero = g.constant(0), six = g.constant(6), gate = rowgen::shift(g, x, 3);
  gate = rowgen::select(g, greater(g, gate, six), six, gate);
  gate = rowgen::select(g, greater(g, zero, gate), zero, gate);
  e.define(getY(), rowgen::mul(g, x, rowgen::scale(g, gate, 1.0 / 6)));
  return success();
}

LogicalResult HardSwishGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node x = e.value(getX()), slope = rowgen::shift(g, rowgen::scale(g, x, 1.0 / 3), 0.5);
  slope = rowgen::select(g, greater(g, g.constant(3), x), slope, g.constant(1));
  slope = rowgen::select(g, greater(g, x, g.constant(-3)), slope, g.constant(0));
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
  RowGraph &g = e.graph();
  Node x = e.value(getX()), zero = g.constant(0), y;
  if (const double slope = getSlope().convertToDouble(); slope != 0)
    y = rowgen::select(g, greater(g, x, zero), x, rowgen::scale(g, x, slope));
  else
    y = rowgen::max(g, x, zero);
  if (getMost()) {
    Node most = g.constant(getMost()->convertToDouble());
    y = rowgen::select(g, greater(g, y, most), most, y);
  }
  e.define(getY(), y);
  return success();
}

LogicalResult ReluGradOp::emitRow(RowEmitter &e) {
  RowGraph &g = e.graph();
  Node zero = g.constant(0), x = e.value(getX()), dy = e.value(getDy());
  const double slope = getSlope().convertToDouble();
  Node dx = rowgen::select(g, greater(g, x, zero), dy, slope == 0 ? zero : rowgen::scale(g, dy, slope));
  if (getMost())
    dx = rowgen::select(g, greater(g, g.constant(getMost()->convertToDouble()), x), dx, zero);
  e.define(getDx(), dx);
  return success();
}
