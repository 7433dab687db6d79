// Dropout: verifier, gradient, evaluation, indexed factor.
#include "codegen/rows/graph/Math.h"
#include "dialects/mg/Gradient.h"
#include "dialects/mg/RowEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "runtime/random/Philox.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mgc;

LogicalResult DropoutOp::verify() {
  double p = getP().convertToDouble();
  return p > 0 && p < 1 ? success() : emitOpError() << "p = " << p << "; expected 0 < p < 1 (dropout_c1)";
}

LogicalResult DropoutOp::buildGradient(GradientBuilder &g) {
  if (Value dy = g.cotangent(getY()); dy && g.wants(getX()))
    g.contribute(getX(), g.make<DropoutOp>(getX(), dy, getPositions(), getSamples(), getPAttr(), getSiteAttr(),
                                           DictionaryAttr()));
  return success();
}

void DropoutOp::dropNothing() {
  getY().replaceAllUsesWith(getX());
  erase();
}

SmallVector<StringAttr> DropoutOp::getIndexedFactors() { return {layoutOf(getX()).getNames().back()}; }

// --- row body

namespace {
using rowgen::Node;

Value low(OpBuilder &b, Location loc, Value x, Type like) { return arith::TruncIOp::create(b, loc, like, x); }
Value high(OpBuilder &b, Location loc, Value x, Type like) {
  Value bits = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(32));
  return low(b, loc, arith::ShRUIOp::create(b, loc, x, bits), like);
}

// Word `number` of mgc::dropoutKey(seed, site, instance): one value for the whole kernel.
Node keyWord(RowEmitter &e, uint64_t site, int number) {
  rowgen::Body body = [site, number](OpBuilder &b, Location loc, ValueRange x) -> Value {
    Type i32 = b.getI32Type();
    auto constant = [&](uint32_t value) -> Value {
      return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(int32_t(value)));
    };
    return rowgen::emitPhilox4x32(
        b, loc, {constant(lowWord(site)), constant(highWord(site)), low(b, loc, x[1], i32), high(b, loc, x[1], i32)},
        {low(b, loc, x[0], i32), high(b, loc, x[0], i32)})[number];
  };
  return e.graph().map(llvm::formatv("dropout_key_{0:x-}_{1}", site, number).str(), body, {e.seed(), e.instance()},
                       rowgen::Element::i32, 0);
}

// x[0] with arguments x, column, position, sample, key words: scaled where the element's word reaches the threshold.
rowgen::Body dropoutBody(double p) {
  return [p](OpBuilder &b, Location loc, ValueRange x) -> Value {
    auto constant = [&](int64_t value) { return rowgen::emitI32(b, loc, value, x[0].getType()); };
    auto words = rowgen::emitPhilox4x32(
        b, loc, {arith::ShRUIOp::create(b, loc, x[1], constant(2)), x[2], x[3], constant(0)}, {x[4], x[5]});
    Value lane = arith::AndIOp::create(b, loc, x[1], constant(3)), word = words[0];
    for (int i = 1; i < 4; ++i) {
      Value isLane = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane, constant(i));
      word = arith::SelectOp::create(b, loc, isLane, words[i], word);
    }
    int64_t threshold = std::min<uint64_t>(dropoutThreshold(p), UINT32_MAX);
    Value keep = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, word, constant(int32_t(uint32_t(threshold))));
    Value scaled = arith::MulFOp::create(b, loc, x[0], rowgen::emitF32(b, loc, 1 / (1 - p), x[0].getType()));
    return arith::SelectOp::create(b, loc, keep, scaled, rowgen::emitF32(b, loc, 0, x[0].getType()));
  };
}
} // namespace

LogicalResult DropoutOp::emitRow(RowEmitter &e) {
  double p = getP().convertToDouble();
  uint64_t site = hashName({getSite().data(), getSite().size()});
  Node column = e.globalIndex(rowDims(getX()).back().name);
  Node y = e.graph().map(llvm::formatv("dropout_{0:x-}", llvm::bit_cast<uint64_t>(p)).str(), dropoutBody(p),
                         {e.value(getX()), column, e.value(getPositions()), e.value(getSamples()), keyWord(e, site, 0),
                          keyWord(e, site, 1)},
                         rowgen::Element::f32, 70);
  e.define(getY(), y);
  return success();
}
