// Maxima of integers, the places of the largest values of a row, results of another size than the row.
#include "codegen/rows/graph/ArgMax.h"
#include "codegen/rows/graph/RowOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "test/codegen/rows/Harness.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

namespace mgc::rowgen::test {

static const std::vector<int64_t> kWidths = {1, 2, 5, 16, 33, 70, 512, 3000, 40000};

// All values are negative: an identity that is not the least number would win.
TEST(ArgMax, MaximumOfIntegers) {
  const int64_t rows = 3;
  std::vector<NamedGraph> graphs;
  for (int64_t h : kWidths) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, h);
    Node x = g.load(g.addOperand(Element::i32, Access::in, {R, H}));
    Body widen = [](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange v) -> mlir::Value {
      auto shaped = mlir::dyn_cast<mlir::ShapedType>(v[0].getType());
      mlir::Type type = shaped ? mlir::Type(shaped.clone(b.getI64Type())) : b.getI64Type();
      mlir::Value wide = mlir::arith::ExtSIOp::create(b, loc, type, v[0]);
      return mlir::arith::AddIOp::create(b, loc, wide, wide); // beyond i32
    };
    Body halve = [](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange v) -> mlir::Value {
      mlir::Value one = mlir::arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(1));
      return mlir::arith::TruncIOp::create(b, loc, b.getI32Type(), mlir::arith::ShRSIOp::create(b, loc, v[0], one));
    };
    Node wide = g.reduce(RowReduction::max, g.map("twice", widen, {x}, Element::i64));
    g.store(g.addOperand(Element::i32, Access::out, {R}), g.reduce(RowReduction::max, x));
    g.store(g.addOperand(Element::i32, Access::out, {R}), g.map("half", halve, {wide}, Element::i32));
    graphs.push_back({fmt::format("k{}", h), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < kWidths.size(); ++number) {
    const int64_t h = kWidths[number];
    Buffer x(randomInts(rows * h, 1, INT32_MIN, -1000)), narrow(rows), wide(rows);
    library.run(number, {&x, &narrow, &wide});
    for (int64_t row = 0; row < rows; ++row) {
      const int32_t *first = x.ints() + row * h, expected = *std::max_element(first, first + h);
      EXPECT_EQ(narrow.ints()[row], expected) << h;
      EXPECT_EQ(wide.ints()[row], expected) << h;
    }
  }
}

// The k largest of x[r, h] and their columns, stored to [r, k] and [k, r].
static RowGraph topK(int64_t rows, int64_t h, int64_t count) {
  RowGraph g;
  Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, h);
  Dim K = g.addDim(DimKind::indexed, count);
  Node x = g.load(g.addOperand(Element::f32, Access::in, {R, H})), index = g.index(H);
  RowOperand values = g.addOperand(Element::f32, Access::out, {R, K}),
             places = g.addOperand(Element::i32, Access::out, {K, R});
  for (auto [round, key] : llvm::enumerate(largestKeys(g, argKey(g, x, index), index, count))) {
    g.store(values, keyValue(g, key), {{K, int64_t(round)}});
    g.store(places, keyIndex(g, key), {{K, int64_t(round)}});
  }
  return g;
}

// Descending, NaN before all numbers, of equal values the lowest column first.
static std::vector<int32_t> orderOf(const float *row, int64_t h) {
  std::vector<int32_t> order(h);
  std::iota(order.begin(), order.end(), 0);
  auto isLarger = [](float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; };
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return isLarger(row[a], row[b]) || (!isLarger(row[b], row[a]) && a < b); });
  return order;
}

static void expectTop(Buffer &x, Buffer &values, Buffer &places, int64_t rows, int64_t count) {
  const auto h = int64_t(x.size()) / rows;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int32_t> order = orderOf(&x[row * h], h);
    for (int64_t round = 0; round < count; ++round) {
      const float expected = x[row * h + order[round]], actual = values[row * count + round];
      ASSERT_EQ(places.ints()[round * rows + row], order[round]) << "row " << row << " of " << h;
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(actual) : actual == expected) << "row " << row << " of " << h;
    }
  }
}

TEST(ArgMax, LargestInOrder) {
  const int64_t rows = 5;
  std::vector<NamedGraph> graphs;
  auto countOf = [](int64_t h) { return std::min<int64_t>(h, 5); };
  for (int64_t h : kWidths)
    graphs.push_back({fmt::format("k{}", h), topK(rows, h, countOf(h))});
  Library library(graphs);
  for (size_t number = 0; number < kWidths.size(); ++number) {
    const int64_t h = kWidths[number], count = countOf(h);
    std::vector<float> numbers;
    for (int32_t eighths : randomInts(rows * h, 1, -40, 40)) // many are equal
      numbers.push_back(float(eighths) / 8);
    Buffer x(numbers), values(rows * count, NAN), places(rows * count, NAN);
    library.run(number, {&x, &values, &places});
    expectTop(x, values, places, rows, count);
  }
}

// Zeros of both signs are equal; infinities and NaNs of both signs, subnormals; all of a row.
TEST(ArgMax, SpecialValues) {
  const std::vector<float> specials = {0.0f, -0.0f,     1e-45f,  -1e-45f,  NAN,   INFINITY, -INFINITY, -NAN,
                                       0.0f, -INFINITY, 3.4e38f, -3.4e38f, -0.0f, 1,        -1};
  std::vector<float> rotated;
  const auto h = int64_t(specials.size());
  for (int64_t row = 0; row < h; ++row)
    for (int64_t column = 0; column < h; ++column)
      rotated.push_back(specials[(row + column) % h]);
  Buffer x(rotated), values(h * h, 7), places(h * h, 7);
  runOne(topK(h, h, h), {&x, &values, &places});
  expectTop(x, values, places, h, h);
}

TEST(ArgMax, RefusedReductions) {
  auto errorOf = [](RowReduction reduction, bool ofBits) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, 2), H = g.addDim(DimKind::column, 8);
    Node index = g.index(H), key = argKey(g, toF32(g, index), index);
    g.reduce(reduction, ofBits ? equal(g, index, index) : key);
    g.store(g.addOperand(Element::f32, Access::out, {R}), g.constant(1));
    Status status = g.verify();
    return status.isOk() ? "" : status.message();
  };
  EXPECT_EQ(errorOf(RowReduction::max, false), "");
  EXPECT_EQ(errorOf(RowReduction::sum, false), "node %3: sum of this element type; expected f32 or i32");
  EXPECT_EQ(errorOf(RowReduction::max, true), "node %4: max of this element type; expected f32, i32 or i64");
}

} // namespace mgc::rowgen::test
