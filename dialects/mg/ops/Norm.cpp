// Norms: verifiers, gradients.
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"

using namespace mlir;
using namespace mgc;

template <typename Op> static LogicalResult verifyOffset(Op op, StringRef constraint) {
  const APFloat offset = op.getOffset();
  return offset.isFinite() && (op.getGamma() || offset.isZero())
             ? success()
             : op.emitOpError() << "has the offset " << op.getOffsetAttr()
                                << "; expected a finite one, and none without gamma (" << constraint << ")";
}
LogicalResult LayerNormOp::verify() { return verifyOffset(*this, "layer_norm_c1"); }
LogicalResult LayerNormGradOp::verify() { return verifyOffset(*this, "layer_norm_grad_c1"); }
LogicalResult RmsNormOp::verify() { return verifyOffset(*this, "rms_norm_c1"); }
LogicalResult RmsNormGradOp::verify() { return verifyOffset(*this, "rms_norm_grad_c1"); }

LogicalResult LayerNormOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getY());
  if (!dy)
    return success();
  if (g.wants(getX()))
    g.contribute(getX(),
                 g.make<LayerNormGradOp>(getX(), getX(), getMean(), getRstd(), dy, getGamma(), getOffsetAttr()));
  if (getGamma() && g.wants(getGamma()))
    g.contribute(getGamma(), g.make<LayerNormWeightGradOp>(getGamma(), getX(), getMean(), getRstd(), dy));
  if (getBeta() && g.wants(getBeta()))
    g.contribute(getBeta(), g.make<SumOp>(getBeta(), dy));
  return success();
}

LogicalResult RmsNormOp::buildGradient(GradientBuilder &g) {
  Value dy = g.cotangent(getY());
  if (!dy)
    return success();
  if (g.wants(getX()))
    g.contribute(getX(), g.make<RmsNormGradOp>(getX(), getX(), getRstd(), dy, getGamma(), getOffsetAttr()));
  if (getGamma() && g.wants(getGamma()))
    g.contribute(getGamma(), g.make<RmsNormWeightGradOp>(getGamma(), getX(), getRstd(), dy));
  return success();
}

// --- row bodies: columns are the normalised dimension

namespace {
using rowgen::mul;
using rowgen::Node;
using rowgen::sub;

Node meanOf(RowEmitter &e, Node node) {
  return rowgen::scale(e.graph(), e.sumOverColumns(node), 1.0 / e.columnCount());
}

Node reciprocalRoot(RowEmitter &e, Node variance, double epsilon) {
  return rowgen::rsqrt(e.graph(), rowgen::shift(e.graph(), variance, epsilon));
}

// The node times offset + gamma; itself without gamma.
template <typename Op> Node multiplyByWeight(Op op, RowEmitter &e, Node node) {
  if (!op.getGamma())
    return node;
  Node gamma = e.value(op.getGamma());
  if (const double offset = op.getOffset().convertToDouble(); offset != 0)
    gamma = rowgen::shift(e.graph(), gamma, offset);
  return mul(e.graph(), node, gamma);
}
} // namespace

LogicalResult LayerNormOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  Node x = e.value(getX()), mean = meanOf(e, x), centered = sub(g, x, mean);
  Node rstd = reciprocalRoot(e, meanOf(e, mul(g, centered, centered)), getEpsilon().convertToDouble());
  e.define(getMean(), mean);
  e.define(getRstd(), rstd);
  Node y = multiplyByWeight(*this, e, mul(g, centered, rstd));
  e.define(getY(), getBeta() ? rowgen::add(g, y, e.value(getBeta())) : y);
  return success();
}

// With n the normalised x and g = dy (offset + gamma): dx = rstd (g - mean(g) - n mean(g n)).
LogicalResult LayerNormGradOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  Node rstd = e.value(getRstd()), n = mul(g, sub(g, e.value(getX()), e.value(getMean())), rstd);
  Node dn = multiplyByWeight(*this, e, e.value(getDy()));
  Node projected = sub(g, sub(g, dn, meanOf(e, dn)), mul(g, n, meanOf(e, mul(g, dn, n))));
  e.define(getDx(), mul(g, projected, rstd));
  return success();
}

LogicalResult LayerNormWeightGradOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  Node n = mul(g, sub(g, e.value(getX()), e.value(getMean())), e.value(getRstd()));
  e.sumOverRows(getDgamma(), mul(g, e.value(getDy()), n));
  return success();
}

LogicalResult RmsNormOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  Node x = e.value(getX());
  Node rstd = reciprocalRoot(e, meanOf(e, mul(g, x, x)), getEpsilon().convertToDouble());
  e.define(getRstd(), rstd);
  e.define(getY(), multiplyByWeight(*this, e, mul(g, x, rstd)));
  return success();
}

// As layer_norm_grad without the mean.
LogicalResult RmsNormGradOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  Node rstd = e.value(getRstd()), n = mul(g, e.value(getX()), rstd);
  Node dn = multiplyByWeight(*this, e, e.value(getDy()));
  e.define(getDx(), mul(g, sub(g, dn, mul(g, n, meanOf(e, mul(g, dn, n)))), rstd));
  return success();
}

LogicalResult RmsNormWeightGradOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  e.sumOverRows(getDgamma(), mul(g, e.value(getDy()), mul(g, e.value(getX()), e.value(getRstd()))));
  return success();
}

// --- reciprocal_root

LogicalResult ReciprocalRootOp::verify() {
  if (getEpsilon().isFinite() && !getEpsilon().isNegative())
    return success();
  return emitOpError() << "has the epsilon " << getEpsilonAttr()
                       << "; expected a finite number that is not negative (reciprocal_root_c1)";
}

LogicalResult ReciprocalRootOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<ReciprocalRootGradOp>(getX(), getY(), dy));
  return success();
}

LogicalResult ReciprocalRootOp::emitRow(RowEmitter &e) {
  e.define(getY(), reciprocalRoot(e, e.value(getX()), getEpsilon().convertToDouble()));
  return success();
}

LogicalResult ReciprocalRootGradOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  Node y = e.value(getY());
  e.define(getDx(), rowgen::scale(g, mul(g, mul(g, mul(g, y, y), y), e.value(getDy())), -0.5));
  return success();
}
