// Kernels that sum over rows: gradients of biases, norm weights and embedding tables.
#include "codegen/rows/graph/RowOps.h"
#include "test/codegen/rows/Harness.h"
#include <gtest/gtest.h>

namespace mgc::rowgen::test {

TEST(ColumnKernels, BiasGradientAccumulates) {
  const int64_t s = 13, b = 3;
  std::vector<NamedGraph> graphs;
  std::vector<int64_t> widths = {128, 200};
  for (int64_t h = 1; h <= 70; ++h)
    widths.push_back(h);
  for (int64_t h : widths) {
    RowGraph g;
    Dim S = g.addDim(DimKind::row, s), B = g.addDim(DimKind::row, b), H = g.addDim(DimKind::column, h);
    Node dy = g.load(g.addOperand(Element::f32, Access::in, {S, B, H}));
    g.storeSumOverRows(g.addOperand(Element::f32, Access::accumulate, {H}), dy);
    EXPECT_EQ(describeKernel(g).range, (h + 63) / 64);
    graphs.push_back({fmt::format("k{}", h), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t h = widths[number];
    Buffer dy(randomFloats(s * b * h, 1)), db(h, 5);
    library.run(number, {&dy, &db});
    std::vector<double> expected(h, 5);
    for (int64_t i = 0; i < s * b * h; ++i)
      expected[i % h] += dy[i];
    expectClose(db, expected, 1e-5, fmt::format("h = {}", h));
  }
}

// The summed values may be stored as well, in place too: an activation's gradient and the bias's.
TEST(ColumnKernels, StoresElementByElementBesideItsSums) {
  const int64_t rows = 37;
  std::vector<NamedGraph> graphs;
  const std::vector<int64_t> widths = {5, 64, 200};
  for (int64_t h : widths) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, h);
    Node dy = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
    Node dx = scale(g, mul(g, dy, g.load(g.addOperand(Element::f32, Access::in, {R, H}))), 3);
    g.store(g.addOperand(Element::f32, Access::out, {R, H}), dx);
    g.storeSumOverRows(g.addOperand(Element::f32, Access::accumulate, {H}), dx);
    graphs.push_back({fmt::format("k{}", h), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t h = widths[number];
    Buffer dy(randomFloats(rows * h, 1)), x(randomFloats(rows * h, 2)), dx(rows * h), sum(h, 2);
    std::vector<double> expected(rows * h), expectedSum(h, 2);
    for (int64_t i = 0; i < rows * h; ++i)
      expectedSum[i % h] += expected[i] = 3.0 * dy[i] * x[i];
    library.run(number, {&dy, &x, &dx, &sum});
    expectClose(dx, expected, 1e-6);
    expectClose(sum, expectedSum, 1e-5);
  }
}

// Layer norm's dgamma and dbeta from saved statistics, over more rows than one chunk; two sums share a pass.
TEST(ColumnKernels, NormWeightGradient) {
  const int64_t rows = 1000;
  std::vector<NamedGraph> graphs;
  const std::vector<int64_t> widths = {3, 32, 75};
  for (int64_t h : widths) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, h);
    Node x = g.load(g.addOperand(Element::f32, Access::in, {R, H})),
         dy = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
    Node mean = g.load(g.addOperand(Element::f32, Access::in, {R})),
         rstd = g.load(g.addOperand(Element::f32, Access::in, {R}));
    g.storeSumOverRows(g.addOperand(Element::f32, Access::out, {H}), mul(g, dy, mul(g, sub(g, x, mean), rstd)));
    g.storeSumOverRows(g.addOperand(Element::f32, Access::out, {H}), dy);
    graphs.push_back({fmt::format("k{}", h), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t h = widths[number];
    Buffer x(randomFloats(rows * h, 1)), dy(randomFloats(rows * h, 2)), mean(randomFloats(rows, 3)),
        rstd(randomFloats(rows, 4)), dgamma(h), dbeta(h);
    library.run(number, {&x, &dy, &mean, &rstd, &dgamma, &dbeta});
    std::vector<double> expectedGamma(h), expectedBeta(h);
    for (int64_t i = 0; i < rows * h; ++i) {
      expectedGamma[i % h] += double(dy[i]) * (double(x[i]) - mean[i / h]) * rstd[i / h];
      expectedBeta[i % h] += dy[i];
    }
    expectClose(dgamma, expectedGamma, 1e-5);
    expectClose(dbeta, expectedBeta, 1e-5);
  }
}

TEST(ColumnKernels, OneByOne) {
  for (int64_t rows : {1, 3}) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, 1);
    Node x = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
    g.storeSumOverRows(g.addOperand(Element::f32, Access::out, {H}), mul(g, x, x));
    Buffer values(rows, 2), sum(1, 7);
    runOne(g, {&values, &sum});
    EXPECT_EQ(sum[0], 4.0f * rows);
  }
}

// The result has its columns in another order than the iteration, and an operand lacks one of them.
TEST(ColumnKernels, TwoColumnDims) {
  const int64_t rows = 6, n = 3, d = 37;
  RowGraph g;
  Dim R = g.addDim(DimKind::row, rows), N = g.addDim(DimKind::column, n), D = g.addDim(DimKind::column, d);
  Node x = g.load(g.addOperand(Element::f32, Access::in, {R, N, D}));
  Node w = g.load(g.addOperand(Element::f32, Access::in, {R, D}));
  g.storeSumOverRows(g.addOperand(Element::f32, Access::out, {D, N}), mul(g, x, w));
  Buffer xs(randomFloats(rows * n * d, 1)), ws(randomFloats(rows * d, 2)), sums(d * n);
  runOne(g, {&xs, &ws, &sums});
  std::vector<double> expected(d * n);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < d; ++k)
        expected[k * n + i] += double(xs[(r * n + i) * d + k]) * ws[r * d + k];
  expectClose(sums, expected, 2e-6);
}

// Embedding gradient: rows of the table from `offset` on live here; ids outside belong to another rank.
TEST(ColumnKernels, ScatterAddRows) {
  const int64_t rows = 200, v = 20, offset = 10;
  std::vector<NamedGraph> graphs;
  const std::vector<int64_t> widths = {1, 8, 30, 64, 100};
  for (int64_t h : widths) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, h), V = g.addDim(DimKind::indexed, v);
    Node id = g.load(g.addOperand(Element::i32, Access::in, {R}));
    Node dy = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
    RowOperand table = g.addOperand(Element::f32, Access::accumulate, {V, H});
    g.addAt(table, {{V, subI32(g, id, toI32(g, g.scalar(1)))}}, dy);
    graphs.push_back({fmt::format("k{}", h), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t h = widths[number];
    Buffer id(randomInts(rows, 1, 0, 40)), dy(randomFloats(rows * h, 2)), table(v * h, 1);
    id.ints()[3] = -2'000'000'000;
    library.run(number, {&id, &dy, &table}, {77, offset});
    std::vector<double> expected(v * h, 1);
    for (int64_t r = 0; r < rows; ++r)
      if (int64_t row = id.ints()[r] - offset; row >= 0 && row < v)
        for (int64_t k = 0; k < h; ++k)
          expected[row * h + k] += dy[r * h + k];
    expectClose(table, expected, 1e-5, fmt::format("h = {}", h));
  }
}

} // namespace mgc::rowgen::test
