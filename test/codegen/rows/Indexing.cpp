// Gathers, picks, fixed positions, indices and random numbers.
#include "codegen/rows/graph/Math.h"
#include "codegen/rows/graph/RowOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "test/codegen/rows/Harness.h"
#include <cmath>
#include <gtest/gtest.h>

namespace mgc::rowgen::test {

TEST(Indexing, GatherRowsWithOffset) {
  const int64_t s = 9, b = 2, v = 12;
  std::vector<NamedGraph> graphs;
  const std::vector<int64_t> widths = {1, 5, 16, 33, 70};
  for (int64_t h : widths) {
    RowGraph g;
    Dim S = g.addDim(DimKind::row, s), B = g.addDim(DimKind::row, b), H = g.addDim(DimKind::column, h);
    Dim V = g.addDim(DimKind::indexed, v);
    Node id = g.load(g.addOperand(Element::i32, Access::in, {S, B}));
    RowOperand table = g.addOperand(Element::f32, Access::in, {V, H});
    Node row = g.load(table, {{V, subI32(g, id, toI32(g, g.scalar(0)))}});
    Node position = g.load(g.addOperand(Element::f32, Access::in, {S, H}));
    g.store(g.addOperand(Element::f32, Access::out, {S, B, H}), add(g, row, position));
    graphs.push_back({fmt::format("k{}", h), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t h = widths[number], offset = 6;
    Buffer id(randomInts(s * b, 1, 0, 24)), table(randomFloats(v * h, 2)), position(randomFloats(s * h, 3));
    Buffer y(s * b * h);
    library.run(number, {&id, &table, &position, &y}, {offset});
    std::vector<double> expected;
    for (int64_t r = 0; r < s * b; ++r)
      for (int64_t k = 0; k < h; ++k) {
        int64_t row = id.ints()[r] - offset;
        expected.push_back((row >= 0 && row < v ? table[row * h + k] : 0.0f) + position[r / b * h + k]);
      }
    expectClose(y, expected, 0, fmt::format("h = {}", h));
  }
}

// Queries within [s, b, g, j, d]: rows of (g, j, d) are read and written where they lie, what stands between is left
// alone; element by element, by rows, and summed over rows.
TEST(Indexing, OperandsWithRowsApart) {
  const int64_t s = 5, g = 3, r = 2, d = 20, j = r + 2, pitch = j * d;
  auto base = [&](RowGraph &graph, std::vector<Dim> &dims) {
    Dim S = graph.addDim(DimKind::row, s), G = graph.addDim(DimKind::row, g), R = graph.addDim(DimKind::row, r);
    dims = {S, G, R, graph.addDim(DimKind::column, d)};
    return graph.load(graph.addOperand(Element::f32, Access::in, dims, {2, pitch}));
  };
  std::vector<Dim> dims;
  RowGraph each, rows, sums;
  Node x = base(each, dims);
  each.store(each.addOperand(Element::f32, Access::out, dims, {2, pitch}), scale(each, x, 2));
  x = base(rows, dims);
  rows.store(rows.addOperand(Element::f32, Access::out, dims, {2, pitch}),
             sub(rows, x, rows.reduce(RowReduction::max, x)));
  sums.addDim(DimKind::row, s);
  dims = {Dim{0}, sums.addDim(DimKind::column, g), sums.addDim(DimKind::column, r), sums.addDim(DimKind::column, d)};
  x = sums.load(sums.addOperand(Element::f32, Access::in, dims, {2, pitch}));
  sums.storeSumOverRows(sums.addOperand(Element::f32, Access::out, {dims[1], dims[2], dims[3]}), x);

  Buffer in(randomFloats(s * g * pitch, 1)), doubled(s * g * pitch, -7), less(s * g * pitch, -7), sum(g * r * d);
  Library library({{"each", each}, {"rows", rows}, {"sums", sums}});
  using plan::OperandUse;
  const auto used = [&](OperandUse use) {
    return plan::RowKernel::Operand{use, 4 * s * g * r * d, 4 * r * d, 4 * pitch};
  };
  EXPECT_EQ(describeKernel(each).operands, (std::vector{used(OperandUse::read), used(OperandUse::written)}));
  library.run(0, {&in, &doubled});
  library.run(1, {&in, &less});
  library.run(2, {&in, &sum});
  std::vector<double> expectedSum(g * r * d, 0);
  for (int64_t i = 0; i < s * g * pitch; ++i) {
    int64_t inner = i % pitch;
    bool isQuery = inner < r * d;
    const float *row = &in[i - inner % d];
    EXPECT_EQ(doubled[i], isQuery ? 2 * in[i] : -7) << i;
    EXPECT_EQ(less[i], isQuery ? in[i] - *std::max_element(row, row + d) : -7) << i;
    if (isQuery)
      expectedSum[i / pitch % g * r * d + inner] += in[i];
  }
  expectClose(sum, expectedSum, 1e-5);
}

// loss[s,b] = logsumexp(x[s,b,:]) - x[s,b,label]; 0 for labels of another rank.
TEST(Indexing, PickTheLabelsLogit) {
  const int64_t rows = 20, v = 50;
  RowGraph g;
  Dim R = g.addDim(DimKind::row, rows), V = g.addDim(DimKind::column, v);
  RowOperand x = g.addOperand(Element::f32, Access::in, {R, V});
  Node label = g.load(g.addOperand(Element::i32, Access::in, {R}));
  Node picked = g.load(x, {{V, subI32(g, label, toI32(g, g.scalar(0)))}});
  g.store(g.addOperand(Element::f32, Access::out, {R}), picked);
  g.store(g.addOperand(Element::f32, Access::out, {R}), sub(g, g.reduce(RowReduction::max, g.load(x)), picked));
  Buffer logits(randomFloats(rows * v, 1)), labels(randomInts(rows, 2, 80, 180)), out(rows), distance(rows);
  runOne(g, {&logits, &labels, &out, &distance}, {100});
  for (int64_t r = 0; r < rows; ++r) {
    int64_t place = labels.ints()[r] - 100;
    float expected = place >= 0 && place < v ? logits[r * v + place] : 0;
    float maximum = *std::max_element(&logits[r * v], &logits[r * v] + v);
    EXPECT_EQ(out[r], expected);
    EXPECT_EQ(distance[r], maximum - expected);
  }
}

// Softmax cross-entropy's gradient: (p - [v + offset == label]) * weight, with a global column index.
TEST(Indexing, OneHotByGlobalIndex) {
  const int64_t rows = 6, v = 37;
  RowGraph g;
  Dim R = g.addDim(DimKind::row, rows), V = g.addDim(DimKind::column, v);
  Node p = g.load(g.addOperand(Element::f32, Access::in, {R, V}));
  Node label = g.load(g.addOperand(Element::i32, Access::in, {R}));
  Node hit = equal(g, g.index(V, 0), label);
  g.store(g.addOperand(Element::f32, Access::out, {R, V}), sub(g, p, select(g, hit, g.constant(1), g.constant(0))));
  g.store(g.addOperand(Element::i32, Access::out, {R}), g.index(R));
  Buffer x(randomFloats(rows * v, 1)), labels(randomInts(rows, 2, 1000, 1000 + v - 1)), y(rows * v), number(rows);
  runOne(g, {&x, &labels, &y, &number}, {1000});
  for (int64_t i = 0; i < rows * v; ++i)
    EXPECT_EQ(y[i], x[i] - (i % v + 1000 == labels.ints()[i / v] ? 1.0f : 0.0f));
  for (int64_t r = 0; r < rows; ++r)
    EXPECT_EQ(number.ints()[r], r);
}

// Rotary embedding in place: x[s,b,n,half,k]; angle = position[s,b] * frequency[k].
TEST(Indexing, RotaryHalves) {
  const int64_t s = 4, b = 2, n = 3;
  std::vector<NamedGraph> graphs;
  const std::vector<int64_t> widths = {1, 4, 8, 16, 20, 32};
  for (int64_t d : widths) {
    RowGraph g;
    Dim S = g.addDim(DimKind::row, s), B = g.addDim(DimKind::row, b), N = g.addDim(DimKind::row, n);
    Dim half = g.addDim(DimKind::indexed, 2), K = g.addDim(DimKind::column, d);
    RowOperand x = g.addOperand(Element::f32, Access::in, {S, B, N, half, K});
    Node position = toF32(g, g.load(g.addOperand(Element::i32, Access::in, {S, B})));
    Node angle = mul(g, position, g.load(g.addOperand(Element::f32, Access::in, {K})));
    Node c = cos(g, angle), si = sin(g, angle);
    Node first = g.load(x, {{half, 0}}), second = g.load(x, {{half, 1}});
    RowOperand y = g.addOperand(Element::f32, Access::out, {S, B, N, half, K});
    g.store(y, sub(g, mul(g, first, c), mul(g, second, si)), {{half, 0}});
    g.store(y, add(g, mul(g, second, c), mul(g, first, si)), {{half, 1}});
    graphs.push_back({fmt::format("k{}", d), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t d = widths[number];
    Buffer x(randomFloats(s * b * n * 2 * d, 1)), old = x, position(randomInts(s * b, 2, 0, 4000));
    Buffer frequency(randomFloats(d, 3, 0, 1));
    library.run(number, {&x, &position, &frequency, &x});
    std::vector<double> expected(x.size());
    for (int64_t r = 0; r < s * b * n; ++r)
      for (int64_t k = 0; k < d; ++k) {
        double angle = float(position.ints()[r / n]) * frequency[k]; // rounded to f32, as the kernel does
        double first = old[r * 2 * d + k], second = old[r * 2 * d + d + k];
        expected[r * 2 * d + k] = first * std::cos(angle) - second * std::sin(angle);
        expected[r * 2 * d + d + k] = second * std::cos(angle) + first * std::sin(angle);
      }
    expectClose(x, expected, 1e-6, fmt::format("d = {}", d));
  }
}

// Random123's known answers, and one by one against a plain implementation.
static std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k[1], uint32_t(p0)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

TEST(Indexing, PhiloxKnownAnswers) {
  const int64_t n = 37;
  RowGraph g;
  Dim N = g.addDim(DimKind::row, n), W = g.addDim(DimKind::indexed, 4), K = g.addDim(DimKind::indexed, 2);
  RowOperand counter = g.addOperand(Element::i32, Access::in, {W, N}),
             key = g.addOperand(Element::i32, Access::in, {K, N});
  RowOperand out = g.addOperand(Element::i32, Access::out, {W, N});
  std::vector<Node> arguments;
  for (int64_t word = 0; word < 4; ++word)
    arguments.push_back(g.load(counter, {{W, word}}));
  for (int64_t word = 0; word < 2; ++word)
    arguments.push_back(g.load(key, {{K, word}}));
  for (int64_t word = 0; word < 4; ++word) {
    Body body = [word](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) {
      return emitPhilox4x32(b, loc, {x[0], x[1], x[2], x[3]}, {x[4], x[5]})[word];
    };
    g.store(out, g.map(fmt::format("philox{}", word), body, arguments, Element::i32), {{W, word}});
  }
  std::vector<int32_t> counters = randomInts(4 * n, 1, INT32_MIN, INT32_MAX),
                       keys = randomInts(2 * n, 2, INT32_MIN, INT32_MAX);
  for (int64_t word = 0; word < 4; ++word) {
    counters[word * n] = 0;
    counters[word * n + 1] = -1;
    if (word < 2) {
      keys[word * n] = 0;
      keys[word * n + 1] = -1;
    }
  }
  Buffer c(counters), k(keys), y(4 * n);
  runOne(g, {&c, &k, &y});
  const std::array<uint32_t, 4> zeros = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const std::array<uint32_t, 4> ones = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  for (int64_t i = 0; i < n; ++i) {
    auto word = [&](const std::vector<int32_t> &values, int64_t w) { return uint32_t(values[w * n + i]); };
    auto expected = philox({word(counters, 0), word(counters, 1), word(counters, 2), word(counters, 3)},
                           {word(keys, 0), word(keys, 1)});
    if (i < 2)
      EXPECT_EQ(expected, i == 0 ? zeros : ones);
    for (int64_t w = 0; w < 4; ++w)
      EXPECT_EQ(uint32_t(y.ints()[w * n + i]), expected[w]) << i << " " << w;
  }
}

// Dropout by global position does not depend on how rows and columns are dealt out to ranks.
static RowGraph dropout(int64_t rows, int64_t columns) {
  RowGraph g;
  Dim R = g.addDim(DimKind::row, rows), C = g.addDim(DimKind::column, columns);
  Node x = g.load(g.addOperand(Element::f32, Access::in, {R, C}));
  Body keep = [](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange v) -> mlir::Value {
    mlir::Value zero = emitI32(b, loc, 0, v[0].getType());
    mlir::Value word = emitPhilox4x32(b, loc, {v[0], v[1], zero, zero}, {v[2], zero})[0];
    mlir::Value quarter = emitI32(b, loc, 1 << 30, v[0].getType());
    return mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::uge, word, quarter);
  };
  Node kept = g.map("keep", keep, {g.index(R, 0), g.index(C, 1), toI32(g, g.scalar(2))}, Element::i1, 60);
  g.store(g.addOperand(Element::f32, Access::out, {R, C}), select(g, kept, scale(g, x, 1 / 0.75), g.constant(0)));
  return g;
}

TEST(Indexing, DropoutBySeedAndGlobalPosition) {
  const int64_t rows = 40, columns = 50, part = 13;
  Library library({{"whole", dropout(rows, columns)}, {"part", dropout(rows, part)}});
  Buffer x(rows * columns, 3), y(rows * columns), xPart(rows * part, 3), yPart(rows * part);
  library.run(0, {&x, &y}, {0, 0, 99});
  library.run(1, {&xPart, &yPart}, {0, 20, 99});
  int64_t dropped = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      float value = y[r * columns + c];
      dropped += value == 0;
      EXPECT_TRUE(value == 0 || value == 4);
      EXPECT_EQ(value == 0, philox({uint32_t(r), uint32_t(c), 0, 0}, {99, 0})[0] >> 8 < (1u << 22));
      if (c >= 20 && c < 20 + part)
        EXPECT_EQ(value, yPart[r * part + c - 20]);
    }
  EXPECT_NEAR(double(dropped) / (rows * columns), 0.25, 0.05);
}

} // namespace mgc::rowgen::test
