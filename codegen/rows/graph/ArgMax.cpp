// See ArgMax.h.
#include "codegen/rows/graph/ArgMax.h"
#include "codegen/rows/graph/Math.h"
#include "codegen/rows/graph/RowOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mgc::rowgen {

using namespace mlir;

static constexpr int64_t kAllButSign = INT32_MAX;

static Type shapedAs(Value like, Type element) {
  auto shaped = dyn_cast<ShapedType>(like.getType());
  return shaped ? Type(shaped.clone(element)) : element;
}

static Value constantI64(OpBuilder &b, Location loc, int64_t value, Value like) {
  TypedAttr attribute = b.getI64IntegerAttr(value);
  if (auto shaped = dyn_cast<ShapedType>(shapedAs(like, b.getI64Type())))
    attribute = DenseElementsAttr::get(shaped, Attribute(attribute));
  return arith::ConstantOp::create(b, loc, attribute);
}

// The bits of negative floats have the reverse order. The function is its own inverse.
static Value reorder(OpBuilder &b, Location loc, Value bits) {
  auto constant = [&](int64_t value) { return emitI32(b, loc, value, bits.getType()); };
  Value sign = arith::ShRSIOp::create(b, loc, bits, constant(31));
  return arith::XOrIOp::create(b, loc, bits, arith::AndIOp::create(b, loc, sign, constant(kAllButSign)));
}

static Value orderedBits(OpBuilder &b, Location loc, Value value) {
  Value positive = arith::AddFOp::create(b, loc, value, emitF32(b, loc, 0, value.getType())); // -0 + 0 = 0
  Value bits = reorder(b, loc, arith::BitcastOp::create(b, loc, shapedAs(value, b.getI32Type()), positive));
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
  return arith::SelectOp::create(b, loc, isNan, emitI32(b, loc, kAllButSign, bits.getType()), bits);
}

Node argKey(RowGraph &graph, Node value, Node index) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    Type wide = shapedAs(x[0], b.getI64Type());
    Value high = arith::ExtSIOp::create(b, loc, wide, orderedBits(b, loc, x[0]));
    high = arith::ShLIOp::create(b, loc, high, constantI64(b, loc, 32, x[0]));
    Value last = arith::XOrIOp::create(b, loc, x[1], emitI32(b, loc, -1, x[1].getType()));
    return arith::OrIOp::create(b, loc, high, arith::ExtUIOp::create(b, loc, wide, last));
  };
  return graph.map("arg_key", body, {value, index}, Element::i64, 9);
}

Node keyIndex(RowGraph &graph, Node key) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    Value low = arith::TruncIOp::create(b, loc, shapedAs(x[0], b.getI32Type()), x[0]);
    return arith::XOrIOp::create(b, loc, low, emitI32(b, loc, -1, low.getType()));
  };
  return graph.map("key_index", body, {key}, Element::i32, 1);
}

Node keyValue(RowGraph &graph, Node key) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    Value high = arith::ShRSIOp::create(b, loc, x[0], constantI64(b, loc, 32, x[0]));
    Value bits = arith::TruncIOp::create(b, loc, shapedAs(x[0], b.getI32Type()), high);
    return arith::BitcastOp::create(b, loc, shapedAs(x[0], b.getF32Type()), reorder(b, loc, bits));
  };
  return graph.map("key_value", body, {key}, Element::f32, 4);
}

Node keyWhere(RowGraph &graph, Node condition, Node key) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    return arith::SelectOp::create(b, loc, x[0], x[1], constantI64(b, loc, INT64_MIN, x[1]));
  };
  return graph.map("key_where", body, {condition, key}, Element::i64);
}

Node maxKey(RowGraph &graph, Node a, Node b) {
  Body body = [](OpBuilder &b, Location loc, ValueRange x) -> Value {
    return arith::MaxSIOp::create(b, loc, x[0], x[1]);
  };
  return graph.map("maxsi64", body, {a, b}, Element::i64);
}

// An element is left out by its index, not by its key: a pass that recomputes values may round them differently.
std::vector<Node> largestKeys(RowGraph &graph, Node keys, Node index, int64_t count) {
  std::vector<Node> found;
  for (int64_t round = 0; round < count; ++round) {
    found.push_back(graph.reduce(RowReduction::max, keys));
    keys = keyWhere(graph, differs(graph, index, keyIndex(graph, found.back())), keys);
  }
  return found;
}

} // namespace mgc::rowgen
