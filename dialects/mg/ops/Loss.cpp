// Cross-entropy and other terms of the loss: gradients, decomposition, indexed factors.
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"
#include <cmath>

using namespace mlir;
using namespace mgc;

LogicalResult CrossEntropyOp::buildGradient(GradientBuilder &g) {
  if (!g.wants(getLogits()))
    return success();
  Value weights = getWeights();
  if (!g.isSeed(getLoss())) {
    Value cotangent = g.cotangent(getLoss());
    if (!cotangent)
      return success();
    weights = g.make<MulOp>(weights, weights, cotangent);
  }
  g.contribute(getLogits(), g.make<CrossEntropyGradOp>(getLogits(), getLogits(), getLse(), getLabels(), weights,
                                                       getValidAttr(), DictionaryAttr()));
  return success();
}

LogicalResult LossTermOp::verify() {
  if (!std::isfinite(float(getScale().convertToDouble())))
    return emitOpError() << "scale is " << getScale().convertToDouble() << "; expected a finite number "
                         << "(loss_term_c1)";
  return tensorOf(getValue()).getRank() == 0 ? success()
                                             : emitOpError() << "the value has " << tensorOf(getValue()).getRank()
                                                             << " dimensions; expected a scalar (loss_term_c2)";
}

LogicalResult LossTermOp::buildGradient(GradientBuilder &g) {
  if (!g.wants(getValue()))
    return success();
  if (!g.isSeed(getTerm()))
    return emitOpError("the term must be a result of its block: it is added to the loss");
  g.contribute(getValue(), g.make<ScaleOp>(getValue(), getStepTokens(), getScaleAttr()));
  return success();
}

// max, sum_exp, log_sum_exp, pick; loss = sum(w lse) - sum(w picked), so that the picked logit is reduced
// once, as a scalar, and not per token.
SmallVector<Value> CrossEntropyOp::decompose(OpBuilder &builder) {
  Type perToken = getLse().getType(), scalar = getLoss().getType();
  auto valid = getValidAttr();
  Value max = MaxOp::create(builder, getLoc(), perToken, getLogits(), valid, DictionaryAttr());
  Value sum = SumExpOp::create(builder, getLoc(), perToken, getLogits(), max, valid, DictionaryAttr());
  Value lse = LogSumExpOp::create(builder, getLoc(), perToken, max, sum);
  Value picked = PickOp::create(builder, getLoc(), perToken, getLogits(), getLabels(), DictionaryAttr());
  Value first = EinsumOp::create(builder, getLoc(), scalar, getWeights(), lse);
  Value second = EinsumOp::create(builder, getLoc(), scalar, getWeights(), picked);
  Value loss =
      AccumulateOp::create(builder, getLoc(), scalar, ValueRange{first, second}, builder.getDenseI64ArrayAttr({1, -1}));
  return {loss, lse};
}

static SmallVector<StringAttr> lastFactor(Value value) { return {layoutOf(value).getNames().back()}; }
SmallVector<StringAttr> CrossEntropyGradOp::getIndexedFactors() { return lastFactor(getLogits()); }
SmallVector<StringAttr> MaxOp::getIndexedFactors() { return lastFactor(getValue()); }
SmallVector<StringAttr> SumExpOp::getIndexedFactors() { return lastFactor(getValue()); }
SmallVector<StringAttr> PickOp::getIndexedFactors() { return lastFactor(getValue()); }

// --- row bodies

namespace {
using rowgen::Node;

// node, or `padding` in the columns whose global number is not below `valid`.
Node whereValid(RowEmitter &e, Operation *op, Value logits, int64_t valid, Node node, double padding) {
  RowSpace::NamedDim last = rowDims(logits).back();
  auto coordinates = op->getAttrOfType<DictionaryAttr>("coordinates");
  bool split = coordinates && coordinates.contains(last.name);
  if (!split && last.size <= valid)
    return node;
  rowgen::RowGraph &g = e.graph();
  Node isValid = lessI32(g, e.globalIndex(last.name), g.constantI32(valid));
  return rowgen::select(g, isValid, node, g.constant(padding));
}
} // namespace

// exp(logits - lse). A kernel that makes lse = max + log(sum) has exp(logits - max) already.
static Node probability(RowEmitter &e, Value logits, Value lse) {
  rowgen::RowGraph &g = e.graph();
  Node x = e.value(logits);
  auto made = lse.getDefiningOp<LogSumExpOp>();
  if (!made || !e.makes(made.getMax()) || !e.makes(made.getSum()))
    return rowgen::exp(g, rowgen::sub(g, x, e.value(lse)));
  Node share = rowgen::div(g, g.constant(1), e.value(made.getSum()));
  return rowgen::mul(g, rowgen::exp(g, rowgen::sub(g, x, e.value(made.getMax()))), share);
}

LogicalResult CrossEntropyGradOp::emitRow(RowEmitter &e) {
  rowgen::RowGraph &g = e.graph();
  Node p = probability(e, getLogits(), getLse());
  Node isLabel = rowgen::equal(g, e.globalIndex(rowDims(getLogits()).back().name), e.value(getLabels()));
  Node difference = rowgen::sub(g, p, rowgen::select(g, isLabel, g.constant(1), g.constant(0)));
  Node weighted = rowgen::mul(g, difference, e.value(getWeights()));
  e.define(getDlogits(), whereValid(e, *this, getLogits(), getValid(), weighted, 0));
  return success();
}

LogicalResult LossTermOp::emitRow(RowEmitter &e) {
  e.define(getTerm(), rowgen::scale(e.graph(), e.value(getValue()), getScale().convertToDouble()));
  return success();
}

LogicalResult MaxOp::emitRow(RowEmitter &e) {
  Node masked = whereValid(e, *this, getValue(), getValid(), e.value(getValue()), -INFINITY);
  e.define(getResult(), e.graph().reduce(rowgen::RowReduction::max, masked));
  return success();
}

LogicalResult SumExpOp::emitRow(RowEmitter &e) {
  Node term = rowgen::exp(e.graph(), rowgen::sub(e.graph(), e.value(getValue()), e.value(getMax())));
  e.define(getResult(), e.sumOverColumns(whereValid(e, *this, getValue(), getValid(), term, 0)));
  return success();
}

LogicalResult LogSumExpOp::emitRow(RowEmitter &e) {
  e.define(getLse(), rowgen::add(e.graph(), e.value(getMax()), rowgen::log(e.graph(), e.value(getSum()))));
  return success();
}

// One place per row; the columns are not iterated.
RowSpace PickOp::getRowSpace() { return {RowSpace::Kind::rows, rowDims(getResult()), {}}; }
Value PickOp::getLookupTable() { return getValue(); }
LogicalResult PickOp::emitRow(RowEmitter &e) {
  RowSpace::NamedDim v = rowDims(getValue()).back();
  e.define(getResult(), e.value(getValue(), {v.name, e.localIndex(e.value(getIds()), v.name, v.size)}));
  return success();
}
