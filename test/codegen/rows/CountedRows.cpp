// Kernels that do as many rows as a number in memory says: each form, with and without rows behind the last one.
#include "codegen/rows/graph/RowOps.h"
#include "test/codegen/rows/Harness.h"
#include <algorithm>
#include <gtest/gtest.h>

namespace mgc::rowgen::test {

namespace {

constexpr float kOld = -7;
constexpr int64_t kRows = 40;

RowGraph elementwise(int64_t columns, Pitch pitch = {}) {
  RowGraph g;
  const Dim C = g.addDim(DimKind::row, kRows), M = g.addDim(DimKind::column, columns);
  g.countRows(g.addOperand(Element::i32, Access::in, {}));
  const Node x = g.load(g.addOperand(Element::f32, Access::in, {C, M}));
  g.store(g.addOperand(Element::f32, Access::out, {C, M}, pitch), scale(g, x, 2));
  return g;
}

std::vector<int32_t> countsToTry() { return {0, 1, 2, 7, 16, 33, 39, 40}; }

} // namespace

// Elements may be in blocks that go on behind the last row, but no further.
TEST(CountedRows, ElementsOfTheFirstRows) {
  for (int64_t columns : {1, 3, 8, 32, 100, 1500}) {
    Library library({{"each", elementwise(columns)}});
    const int64_t block = kRows * columns % 16 == 0 ? 16 : 1024;
    for (int32_t count : countsToTry()) {
      Buffer number(std::vector{count}), x(randomFloats(kRows * columns, 1)), y(kRows * columns, kOld);
      library.run(0, {&number, &x, &y});
      for (int64_t i = 0; i < kRows * columns; ++i)
        if (i < count * columns || i >= count * columns + block)
          ASSERT_EQ(y[i], i < count * columns ? 2 * x[i] : kOld) << columns << " columns, " << count << " rows: " << i;
    }
  }
}

TEST(CountedRows, RowsThatLieApart) {
  constexpr int64_t columns = 12, pitch = 20;
  Library library({{"apart", elementwise(columns, {1, pitch})}});
  for (int32_t count : countsToTry()) {
    Buffer number(std::vector{count}), x(randomFloats(kRows * columns, 1)), y(kRows * pitch, kOld);
    library.run(0, {&number, &x, &y});
    for (int64_t i = 0; i < kRows * pitch; ++i) {
      const bool isMade = i / pitch < count && i % pitch < columns;
      ASSERT_EQ(y[i], isMade ? 2 * x[i / pitch * columns + i % pitch] : kOld) << count << " rows: " << i;
    }
  }
}

// A sum over the columns and a row of a table, for each of two rows of a position: nothing of other positions is touched.
TEST(CountedRows, RowsWithSumsAndPlaces) {
  for (int64_t columns : {5, 70, 1200}) {
    RowGraph g;
    const Dim C = g.addDim(DimKind::row, kRows), J = g.addDim(DimKind::row, 2), M = g.addDim(DimKind::column, columns),
              T = g.addDim(DimKind::indexed, 9);
    g.countRows(g.addOperand(Element::i32, Access::in, {}));
    const Node place = g.load(g.addOperand(Element::i32, Access::in, {C, J}));
    const RowOperand table = g.addOperand(Element::f32, Access::in, {T, M});
    const Node x = g.load(table, {{T, place}});
    g.store(g.addOperand(Element::f32, Access::out, {C, J, M}), add(g, x, g.constant(1)));
    g.store(g.addOperand(Element::f32, Access::out, {C, J}), g.reduce(RowReduction::max, x));
    Library library({{"rows", g}});
    for (int32_t count : countsToTry()) {
      Buffer number(std::vector{count}), places(randomInts(kRows * 2, 1, 0, 8)), rows(randomFloats(9 * columns, 2)),
          y(kRows * 2 * columns, kOld), most(kRows * 2, kOld);
      library.run(0, {&number, &places, &rows, &y, &most});
      for (int64_t r = 0; r < kRows * 2; ++r) {
        const float *row = &rows[places.ints()[r] * columns];
        ASSERT_EQ(most[r], r < 2 * count ? *std::max_element(row, row + columns) : kOld) << count << ": " << r;
        for (int64_t i = 0; i < columns; ++i)
          ASSERT_EQ(y[r * columns + i], r < 2 * count ? row[i] + 1 : kOld) << count << ": " << r << ", " << i;
      }
    }
  }
}

// Memory that the count's maker left wrong reaches no further than the operands.
TEST(CountedRows, ANumberOutOfRangeIsTheNearestInIt) {
  Library library({{"each", elementwise(16)}});
  for (int32_t count : {-1, INT32_MIN, 41, INT32_MAX}) {
    Buffer number(std::vector{count}), x(randomFloats(kRows * 16, 1)), y(kRows * 16, kOld);
    library.run(0, {&number, &x, &y});
    for (int64_t i = 0; i < kRows * 16; ++i)
      ASSERT_EQ(y[i], count < 0 ? kOld : 2 * x[i]) << count;
  }
}

TEST(CountedRows, OperandsSayThatTheirRowsAreCounted) {
  const RowGraph counted = elementwise(16);
  const KernelInfo info = describeKernel(counted);
  ASSERT_EQ(info.operands.size(), 3u);
  EXPECT_FALSE(info.operands[0].counted);
  EXPECT_TRUE(info.operands[1].counted);
  EXPECT_TRUE(info.operands[2].counted);
  RowGraph all;
  const Dim C = all.addDim(DimKind::row, kRows), M = all.addDim(DimKind::column, 16);
  all.addOperand(Element::i32, Access::in, {});
  const Node x = all.load(all.addOperand(Element::f32, Access::in, {C, M}));
  all.store(all.addOperand(Element::f32, Access::out, {C, M}), scale(all, x, 2));
  EXPECT_NE(all.key(), counted.key());
}

TEST(CountedRows, WhatIsSummedOverRowsIsRefused) {
  RowGraph g;
  const Dim C = g.addDim(DimKind::row, kRows), M = g.addDim(DimKind::column, 16);
  g.countRows(g.addOperand(Element::i32, Access::in, {}));
  g.storeSumOverRows(g.addOperand(Element::f32, Access::out, {M}),
                     g.load(g.addOperand(Element::f32, Access::in, {C, M})));
  EXPECT_NE(g.verify().message().find("expected a first dim over which nothing is summed"), std::string::npos);
}

} // namespace mgc::rowgen::test
