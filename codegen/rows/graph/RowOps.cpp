// See RowOps.h.
#include "codegen/rows/graph/RowOps.h"
#include "codegen/rows/graph/Math.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mgc::rowgen {

using mlir::Location;
using mlir::OpBuilder;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

template <typename Op> static Body binary() {
  return [](OpBuilder &b, Location loc, ValueRange x) -> Value { return Op::create(b, loc, x[0], x[1]); };
}

static Body unary(Value (*emit)(OpBuilder &, Location, Value)) {
  return [emit](OpBuilder &b, Location loc, ValueRange x) { return emit(b, loc, x[0]); };
}

// The type of `like` with another element type.
static Type withElement(Type like, Type element) {
  auto shaped = mlir::dyn_cast<mlir::ShapedType>(like);
  return shaped ? Type(shaped.clone(element)) : element;
}

Node add(RowGraph &g, Node a, Node b) { return g.map("add", binary<mlir::arith::AddFOp>(), {a, b}); }
Node sub(RowGraph &g, Node a, Node b) { return g.map("sub", binary<mlir::arith::SubFOp>(), {a, b}); }
Node mul(RowGraph &g, Node a, Node b) { return g.map("mul", binary<mlir::arith::MulFOp>(), {a, b}); }
Node div(RowGraph &g, Node a, Node b) { return g.map("div", binary<mlir::arith::DivFOp>(), {a, b}); }
Node scale(RowGraph &g, Node a, double factor) { return mul(g, a, g.constant(factor)); }
Node shift(RowGraph &g, Node a, double summand) { return add(g, a, g.constant(summand)); }
Node exp(RowGraph &g, Node a) { return g.map("exp", unary(emitExp), {a}, Element::f32, 16); }
Node log(RowGraph &g, Node a) { return g.map("log", unary(emitLog), {a}, Element::f32, 20); }
Node sin(RowGraph &g, Node a) { return g.map("sin", unary(emitSin), {a}, Element::f32, 20); }
Node cos(RowGraph &g, Node a) { return g.map("cos", unary(emitCos), {a}, Element::f32, 20); }
Node sqrt(RowGraph &g, Node a) { return g.map("sqrt", unary(emitSqrt), {a}); }
Node truncate(RowGraph &g, Node a) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    Type type = x[0].getType();
    Value whole = mlir::arith::FPToSIOp::create(b, loc, withElement(type, b.getI32Type()), x[0]);
    return mlir::arith::SIToFPOp::create(b, loc, type, whole);
  };
  return g.map("truncate", body, {a}, Element::f32, 2);
}
Node rsqrt(RowGraph &g, Node a) { return g.map("rsqrt", unary(emitRsqrt), {a}, Element::f32, 2); }
Node sigmoid(RowGraph &g, Node a) { return g.map("sigmoid", unary(emitSigmoid), {a}, Element::f32, 19); }

Node max(RowGraph &g, Node a, Node b) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    Value greater = mlir::arith::CmpFOp::create(b, loc, mlir::arith::CmpFPredicate::OGT, x[0], x[1]);
    return mlir::arith::SelectOp::create(b, loc, greater, x[0], x[1]);
  };
  return g.map("max", body, {a, b});
}

Node softplus(RowGraph &g, Node a) { return g.map("softplus", unary(emitSoftplus), {a}, Element::f32, 46); }
Node tanh(RowGraph &g, Node a) { return g.map("tanh", unary(emitTanh), {a}, Element::f32, 30); }

Node addI32(RowGraph &g, Node a, Node b) { return g.map("addi", binary<mlir::arith::AddIOp>(), {a, b}, Element::i32); }

Node subI32(RowGraph &g, Node a, Node b) { return g.map("subi", binary<mlir::arith::SubIOp>(), {a, b}, Element::i32); }

Node divideI32(RowGraph &g, Node a, int64_t divisor) {
  Body body = [divisor](OpBuilder &b, Location loc, ValueRange x) -> Value {
    return mlir::arith::DivUIOp::create(b, loc, x[0], emitI32(b, loc, divisor, x[0].getType()));
  };
  return g.map(fmt::format("divui:{}", divisor), body, {a}, Element::i32);
}

Node withBit(RowGraph &g, Node mask, Node number) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    Value bit = mlir::arith::ShLIOp::create(b, loc, emitI32(b, loc, 1, x[1].getType()), x[1]);
    return mlir::arith::OrIOp::create(b, loc, x[0], bit);
  };
  return g.map("with_bit", body, {mask, number}, Element::i32, 2);
}

Node hasBit(RowGraph &g, Node mask, Node number) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    Value bit = mlir::arith::ShRUIOp::create(b, loc, x[0], x[1]);
    return mlir::arith::TruncIOp::create(b, loc, withElement(x[0].getType(), b.getI1Type()), bit);
  };
  return g.map("has_bit", body, {mask, number}, Element::i1, 2);
}

static Node compare(RowGraph &g, const char *name, mlir::arith::CmpIPredicate predicate, Node a, Node b) {
  Body body = [predicate](OpBuilder &b, Location loc, ValueRange x) -> Value {
    return mlir::arith::CmpIOp::create(b, loc, predicate, x[0], x[1]);
  };
  return g.map(name, body, {a, b}, Element::i1);
}

Node equal(RowGraph &g, Node a, Node b) { return compare(g, "eq", mlir::arith::CmpIPredicate::eq, a, b); }
Node differs(RowGraph &g, Node a, Node b) { return compare(g, "ne", mlir::arith::CmpIPredicate::ne, a, b); }

Node toI32(RowGraph &g, Node a) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    return mlir::arith::TruncIOp::create(b, loc, withElement(x[0].getType(), b.getI32Type()), x[0]);
  };
  return g.map("trunci", body, {a}, Element::i32, 0);
}

Node toF32(RowGraph &g, Node a) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    return mlir::arith::SIToFPOp::create(b, loc, withElement(x[0].getType(), b.getF32Type()), x[0]);
  };
  return g.map("sitofp", body, {a});
}

Node select(RowGraph &g, Node condition, Node a, Node b) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    return mlir::arith::SelectOp::create(b, loc, x[0], x[1], x[2]);
  };
  return g.map("select", body, {condition, a, b});
}

} // namespace mgc::rowgen
