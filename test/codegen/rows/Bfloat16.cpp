// Operands of bf16: what is loaded is exact, what is stored is the nearest, all between is f32.
#include "codegen/rows/graph/RowOps.h"
#include "test/codegen/rows/Harness.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace mgc::rowgen::test {

static Buffer bf16Of(size_t size, float value) { return Buffer(std::vector<uint16_t>(size, toBf16(value))); }

static RowGraph copyOf(int64_t size, Element from, Element to) {
  RowGraph g;
  Dim N = g.addDim(DimKind::column, size);
  Node x = g.load(g.addOperand(from, Access::in, {N}));
  g.store(g.addOperand(to, Access::out, {N}), x);
  return g;
}

TEST(Bfloat16, EveryValueIsLoadedExactly) {
  std::vector<uint16_t> all(1 << 16);
  for (size_t bits = 0; bits < all.size(); ++bits)
    all[bits] = uint16_t(bits);
  Buffer x(all), y(all.size());
  runOne(copyOf(int64_t(all.size()), Element::bf16, Element::f32), {&x, &y});
  for (size_t bits = 0; bits < all.size(); ++bits) {
    uint32_t word = uint32_t(bits) << 16;
    ASSERT_EQ(std::memcmp(&y[bits], &word, 4), 0) << bits;
  }
}

// Above each bf16: just more, just below the middle, the middle, just above it, just below the next.
TEST(Bfloat16, StoresRoundToNearestEven) {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 1 << 16; ++upper)
    for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      uint32_t word = upper << 16 | lower;
      values.push_back(0);
      std::memcpy(&values.back(), &word, 4);
    }
  Buffer x(values), y = bf16Of(values.size(), 0);
  runOne(copyOf(int64_t(values.size()), Element::f32, Element::bf16), {&x, &y});
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isnan(values[i]))
      ASSERT_TRUE(std::isnan(fromBf16(y.halves()[i])) && (y.halves()[i] & 0x40)) << i; // the target chooses the NaN
    else
      ASSERT_EQ(y.halves()[i], toBf16(values[i])) << std::hexfloat << values[i];
}

// y[s,h] = x[s,h] + w[h] + t[h,s] + r[s] + c[], of bf16 but for r; then z[s,h] += x.
TEST(Bfloat16, AccessesOfEveryKind) {
  const int64_t s = 3;
  std::vector<NamedGraph> graphs;
  for (int64_t h = 1; h <= 70; ++h) {
    RowGraph g;
    Dim S = g.addDim(DimKind::row, s), H = g.addDim(DimKind::column, h);
    auto in = [&](Element element, std::vector<Dim> dims) {
      return g.load(g.addOperand(element, Access::in, std::move(dims)));
    };
    Node x = in(Element::bf16, {S, H}), w = in(Element::bf16, {H}), t = in(Element::bf16, {H, S});
    Node r = in(Element::f32, {S}), c = in(Element::bf16, {});
    g.store(g.addOperand(Element::bf16, Access::out, {S, H}), add(g, add(g, add(g, add(g, x, w), t), r), c));
    g.store(g.addOperand(Element::bf16, Access::accumulate, {S, H}), x);
    EXPECT_EQ(describeKernel(g).bytes, 2 * (s * h + h + h * s + 1) + 4 * s + 2 * 3 * s * h);
    graphs.push_back({fmt::format("k{}", h), g});
  }
  Library library(graphs);
  for (int64_t h = 1; h <= 70; ++h) {
    auto halves = [](size_t size, unsigned seed) { return Buffer(toBf16(randomFloats(size, seed))); };
    Buffer x = halves(s * h, 1), w = halves(h, 2), t = halves(h * s, 3), r(randomFloats(s, 4)), c = halves(1, 5);
    Buffer y = halves(s * h, 6), z = halves(s * h, 7), old = z;
    library.run(h - 1, {&x, &w, &t, &r, &c, &y, &z});
    auto at = [](Buffer &buffer, int64_t i) { return fromBf16(buffer.halves()[i]); };
    for (int64_t i = 0; i < s * h; ++i) {
      float sum = at(x, i) + at(w, i % h) + at(t, i % h * s + i / h) + r[i / h] + at(c, 0);
      ASSERT_EQ(y.halves()[i], toBf16(sum)) << "h = " << h << " at " << i;
      ASSERT_EQ(z.halves()[i], toBf16(at(old, i) + at(x, i))) << "h = " << h << " at " << i;
    }
  }
}

// Between load and store nothing is rounded: the sum of squares is that of f32. The number per row is bf16.
TEST(Bfloat16, RowReductions) {
  const int64_t rows = 5, h = 1003;
  RowGraph g;
  Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, h);
  Node x = g.load(g.addOperand(Element::bf16, Access::in, {R, H}));
  Node mean = scale(g, g.reduce(RowReduction::sum, mul(g, x, x)), 1.0 / h);
  g.store(g.addOperand(Element::bf16, Access::out, {R, H}), mul(g, x, rsqrt(g, mean)));
  g.store(g.addOperand(Element::bf16, Access::accumulate, {R}), mean);
  Buffer x0(toBf16(randomFloats(rows * h, 1))), old = x0, means(toBf16(randomFloats(rows, 2)));
  Buffer before = means;
  runOne(g, {&x0, &x0, &means}); // in place
  for (int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (int64_t k = 0; k < h; ++k)
      squares += std::pow(fromBf16(old.halves()[row * h + k]), 2);
    for (int64_t k = 0; k < h; ++k) {
      double expected = fromBf16(old.halves()[row * h + k]) / std::sqrt(squares / h);
      ASSERT_NEAR(fromBf16(x0.halves()[row * h + k]), expected, std::abs(expected) * 0x1.01p-8);
    }
    double sum = fromBf16(before.halves()[row]) + squares / h;
    ASSERT_NEAR(fromBf16(means.halves()[row]), sum, std::abs(sum) * 0x1.01p-8);
  }
}

// Quarters: exact in f32, so the result is the exact sum rounded once, however many rows there are. A bf16 that held
// partial sums would lose them.
TEST(Bfloat16, SumsOverRowsAreRoundedOnce) {
  const int64_t rows = 1000;
  const std::vector<int64_t> widths = {1, 15, 33, 70, 200};
  std::vector<NamedGraph> graphs;
  for (int64_t h : widths) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, h);
    Node x = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
    g.storeSumOverRows(g.addOperand(Element::bf16, Access::accumulate, {H}), x);
    g.storeSumOverRows(g.addOperand(Element::bf16, Access::out, {H}), add(g, x, x));
    g.storeSumOverRows(g.addOperand(Element::f32, Access::accumulate, {H}), x);
    graphs.push_back({fmt::format("k{}", h), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t h = widths[number];
    std::vector<float> values;
    for (int32_t quarters : randomInts(rows * h, 1, -2, 6))
      values.push_back(float(quarters) / 4);
    Buffer x(values), sum = bf16Of(h, 100), twice = bf16Of(h, 0), exact(h, 7);
    library.run(number, {&x, &sum, &twice, &exact});
    for (int64_t k = 0; k < h; ++k) {
      float expected = 0;
      for (int64_t row = 0; row < rows; ++row)
        expected += values[row * h + k];
      ASSERT_EQ(sum.halves()[k], toBf16(100 + expected)) << "h = " << h << " at " << k;
      ASSERT_EQ(twice.halves()[k], toBf16(2 * expected)) << "h = " << h << " at " << k;
      ASSERT_EQ(exact[k], 7 + expected) << "h = " << h << " at " << k;
    }
  }
}

TEST(Bfloat16, TablesAreRoundedRowByRow) {
  const int64_t rows = 40, h = 19, v = 4;
  RowGraph g;
  Dim R = g.addDim(DimKind::row, rows), V = g.addDim(DimKind::indexed, v), H = g.addDim(DimKind::column, h);
  Node index = g.load(g.addOperand(Element::i32, Access::in, {R}));
  Node x = g.load(g.addOperand(Element::bf16, Access::in, {R, H}));
  g.addAt(g.addOperand(Element::bf16, Access::accumulate, {V, H}), {{V, index}}, x);
  Buffer indices(randomInts(rows, 1, -1, v)), values(toBf16(randomFloats(rows * h, 2)));
  Buffer table(toBf16(randomFloats(v * h, 3))), expected = table;
  runOne(g, {&indices, &values, &table});
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0, place = indices.ints()[row]; k < h && place >= 0 && place < v; ++k) {
      uint16_t &sum = expected.halves()[place * h + k];
      sum = toBf16(fromBf16(sum) + fromBf16(values.halves()[row * h + k]));
    }
  EXPECT_TRUE(table.sameBits(expected));
}

TEST(Bfloat16, NeedsAreCountedInHalves) {
  RowGraph g;
  Dim R = g.addDim(DimKind::row, 3), H = g.addDim(DimKind::column, 5);
  Node x = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
  g.store(g.addOperand(Element::bf16, Access::out, {R, H}, {1, 8}), x);
  using Operand = plan::RowKernel::Operand;
  EXPECT_EQ(describeKernel(g).operands, (std::vector<Operand>{{plan::OperandUse::read, 4 * 3 * 5},
                                                              {plan::OperandUse::written, 2 * 3 * 5, 2 * 5, 2 * 8}}));
  EXPECT_EQ(describeKernel(g).bytes, (2 + 4) * 3 * 5);
}

} // namespace mgc::rowgen::test
