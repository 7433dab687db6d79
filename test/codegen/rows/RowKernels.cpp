// Elementwise kernels and kernels with row reductions.
#include "codegen/rows/graph/RowOps.h"
#include "test/codegen/rows/Harness.h"
#include <cmath>
#include <gtest/gtest.h>

namespace mgc::rowgen::test {

// y[s,b,h] = x[s,b,h] * w[h] + a[b,h] + t[h,s] + c[], for all h: t is read with a stride, the rest in vectors.
static RowGraph broadcasts(int64_t s, int64_t b, int64_t h) {
  RowGraph g;
  Dim S = g.addDim(DimKind::row, s), B = g.addDim(DimKind::row, b), H = g.addDim(DimKind::column, h);
  auto in = [&](std::vector<Dim> dims) { return g.load(g.addOperand(Element::f32, Access::in, std::move(dims))); };
  Node x = in({S, B, H}), w = in({H}), a = in({B, H}), t = in({H, S}), c = in({});
  g.store(g.addOperand(Element::f32, Access::out, {S, B, H}), add(g, add(g, add(g, mul(g, x, w), a), t), c));
  return g;
}

TEST(RowKernels, ElementwiseWithBroadcasts) {
  const int64_t s = 3, b = 2;
  std::vector<NamedGraph> graphs;
  for (int64_t h = 1; h <= 70; ++h)
    graphs.push_back({fmt::format("k{}", h), broadcasts(s, b, h)});
  Library library(graphs);
  for (int64_t h = 1; h <= 70; ++h) {
    Buffer x(randomFloats(s * b * h, 1)), w(randomFloats(h, 2)), a(randomFloats(b * h, 3)), t(randomFloats(h * s, 4));
    Buffer c(randomFloats(1, 5)), y(s * b * h);
    library.run(h - 1, {&x, &w, &a, &t, &c, &y});
    std::vector<double> expected;
    for (int64_t i = 0; i < s; ++i)
      for (int64_t j = 0; j < b; ++j)
        for (int64_t k = 0; k < h; ++k)
          expected.push_back(double(x[(i * b + j) * h + k]) * w[k] + a[j * h + k] + t[k * s + i] + c[0]);
    expectClose(y, expected, 1e-6, fmt::format("h = {}", h));
  }
}

// All operands are full or scalar: one flat loop, in blocks of 1024.
TEST(RowKernels, ElementwiseCollapses) {
  std::vector<NamedGraph> graphs;
  const std::vector<int64_t> widths = {1, 7, 8, 33, 70};
  for (int64_t h : widths) {
    RowGraph g;
    Dim S = g.addDim(DimKind::row, 61), B = g.addDim(DimKind::row, 3), H = g.addDim(DimKind::column, h);
    Node x = g.load(g.addOperand(Element::f32, Access::in, {S, B, H}));
    Node c = g.load(g.addOperand(Element::f32, Access::in, {}));
    g.store(g.addOperand(Element::f32, Access::out, {S, B, H}), mul(g, x, c));
    EXPECT_EQ(describeKernel(g).range, (61 * 3 * h + 1023) / 1024);
    EXPECT_EQ(describeKernel(g).bytes, 4.0 * (2 * 61 * 3 * h + 1));
    graphs.push_back({fmt::format("k{}", h), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    size_t n = 61 * 3 * widths[number];
    Buffer x(randomFloats(n, 1)), c(std::vector<float>{3}), y(n);
    library.run(number, {&x, &c, &y});
    for (size_t i = 0; i < n; ++i)
      ASSERT_EQ(y[i], x[i] * 3);
  }
}

static RowGraph layerNorm(int64_t s, int64_t b, int64_t h) {
  RowGraph g;
  Dim S = g.addDim(DimKind::row, s), B = g.addDim(DimKind::row, b), H = g.addDim(DimKind::column, h);
  Node x = g.load(g.addOperand(Element::f32, Access::in, {S, B, H}));
  Node gamma = g.load(g.addOperand(Element::f32, Access::in, {H}));
  Node beta = g.load(g.addOperand(Element::f32, Access::in, {H}));
  RowOperand y = g.addOperand(Element::f32, Access::out, {S, B, H});
  RowOperand meanOut = g.addOperand(Element::f32, Access::out, {S, B});
  RowOperand rstdOut = g.addOperand(Element::f32, Access::out, {S, B});
  Node mean = scale(g, g.reduce(RowReduction::sum, x), 1.0 / h);
  Node centered = sub(g, x, mean);
  Node variance = scale(g, g.reduce(RowReduction::sum, mul(g, centered, centered)), 1.0 / h);
  Node rstd = rsqrt(g, shift(g, variance, 1e-5));
  g.store(y, add(g, mul(g, mul(g, centered, rstd), gamma), beta));
  g.store(meanOut, mean);
  g.store(rstdOut, rstd);
  return g;
}

TEST(RowKernels, LayerNorm) {
  const int64_t s = 4, b = 3;
  std::vector<int64_t> widths;
  for (int64_t h = 1; h <= 70; ++h)
    widths.push_back(h);
  widths.insert(widths.end(), {768, 5003, 9001}); // longer than one chunk of a sum
  std::vector<NamedGraph> graphs;
  for (int64_t h : widths)
    graphs.push_back({fmt::format("k{}", h), layerNorm(s, b, h)});
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t h = widths[number];
    Buffer x(randomFloats(s * b * h, 1)), gamma(randomFloats(h, 2)), beta(randomFloats(h, 3));
    Buffer y(s * b * h), mean(s * b), rstd(s * b);
    library.run(number, {&x, &gamma, &beta, &y, &mean, &rstd});
    std::vector<double> expectedY, expectedMean, expectedRstd;
    for (int64_t row = 0; row < s * b; ++row) {
      double sum = 0, squares = 0;
      for (int64_t k = 0; k < h; ++k)
        sum += x[row * h + k];
      for (int64_t k = 0; k < h; ++k)
        squares += std::pow(x[row * h + k] - sum / h, 2);
      double r = 1 / std::sqrt(squares / h + 1e-5);
      expectedMean.push_back(sum / h);
      expectedRstd.push_back(r);
      for (int64_t k = 0; k < h; ++k)
        expectedY.push_back((x[row * h + k] - sum / h) * r * gamma[k] + beta[k]);
    }
    // For tiny rows the variance itself may be tiny: rstd magnifies the rounding of the mean.
    expectClose(y, expectedY, h < 4 ? 1e-3 : 1e-5, fmt::format("h = {}", h));
    expectClose(mean, expectedMean, 1e-6);
    expectClose(rstd, expectedRstd, h < 4 ? 1e-3 : 1e-5);
  }
}

// dx = rstd * (dy * w - x * rstd^2 * mean(dy * w * x)), in place of dy.
TEST(RowKernels, RmsNormBackwardInPlace) {
  std::vector<NamedGraph> graphs;
  const std::vector<int64_t> widths = {8, 37, 64, 129};
  const int64_t rows = 11;
  for (int64_t h : widths) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), H = g.addDim(DimKind::column, h);
    Node x = g.load(g.addOperand(Element::f32, Access::in, {R, H}));
    Node w = g.load(g.addOperand(Element::f32, Access::in, {H}));
    Node rstd = g.load(g.addOperand(Element::f32, Access::in, {R}));
    Node scaled = mul(g, g.load(g.addOperand(Element::f32, Access::in, {R, H})), w);
    Node dot = scale(g, g.reduce(RowReduction::sum, mul(g, scaled, x)), 1.0 / h);
    Node factor = mul(g, mul(g, rstd, rstd), dot);
    g.store(g.addOperand(Element::f32, Access::out, {R, H}), mul(g, rstd, sub(g, scaled, mul(g, x, factor))));
    graphs.push_back({fmt::format("k{}", h), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t h = widths[number];
    Buffer x(randomFloats(rows * h, 1)), w(randomFloats(h, 2)), rstd(randomFloats(rows, 3, 0.5, 2));
    Buffer gradient(randomFloats(rows * h, 4)), old = gradient;
    library.run(number, {&x, &w, &rstd, &gradient, &gradient});
    std::vector<double> expected;
    for (int64_t row = 0; row < rows; ++row) {
      double dot = 0;
      for (int64_t k = 0; k < h; ++k)
        dot += double(old[row * h + k]) * w[k] * x[row * h + k] / h;
      for (int64_t k = 0; k < h; ++k)
        expected.push_back(rstd[row] *
                           (double(old[row * h + k]) * w[k] - x[row * h + k] * rstd[row] * rstd[row] * dot));
    }
    expectClose(gradient, expected, 2e-6);
  }
}

// Max and sum of exp of rows with -inf in them; y = softmax. Two levels of reductions share three passes.
TEST(RowKernels, SoftmaxWithMinusInfinity) {
  const int64_t rows = 7;
  std::vector<NamedGraph> graphs;
  for (int64_t v = 1; v <= 70; ++v) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), V = g.addDim(DimKind::column, v);
    Node x = g.load(g.addOperand(Element::f32, Access::in, {R, V}));
    RowOperand y = g.addOperand(Element::f32, Access::out, {R, V});
    RowOperand lse = g.addOperand(Element::f32, Access::out, {R});
    Node maximum = g.reduce(RowReduction::max, x);
    Node power = exp(g, sub(g, x, maximum));
    Node sum = g.reduce(RowReduction::sum, power);
    g.store(y, div(g, power, sum));
    g.store(lse, add(g, maximum, log(g, sum)));
    graphs.push_back({fmt::format("k{}", v), g});
  }
  Library library(graphs);
  for (int64_t v = 1; v <= 70; ++v) {
    Buffer x(randomFloats(rows * v, 1, -20, 20)), y(rows * v), lse(rows);
    for (int64_t i = 0; i < rows * v; i += 3)
      if (i % v) // the first of a row stays finite
        x[i] = -INFINITY;
    library.run(v - 1, {&x, &y, &lse});
    std::vector<double> expected, expectedLse;
    for (int64_t row = 0; row < rows; ++row) {
      double maximum = -INFINITY, sum = 0;
      for (int64_t k = 0; k < v; ++k)
        maximum = std::max<double>(maximum, x[row * v + k]);
      for (int64_t k = 0; k < v; ++k)
        sum += std::exp(x[row * v + k] - maximum);
      for (int64_t k = 0; k < v; ++k)
        expected.push_back(std::exp(x[row * v + k] - maximum) / sum);
      expectedLse.push_back(maximum + std::log(sum));
    }
    expectClose(y, expected, 1e-6, fmt::format("v = {}", v));
    expectClose(lse, expectedLse, 1e-6);
  }
}

// y = z exp(x) / sum, in the memory of z: there the powers cannot wait for their sum, of one row as of several.
TEST(RowKernels, WhatTheLastPassReadsIsNotOverwrittenBefore) {
  const int64_t v = 77;
  for (int64_t rows : {1, 5}) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), V = g.addDim(DimKind::column, v);
    Node power = exp(g, g.load(g.addOperand(Element::f32, Access::in, {R, V})));
    Node z = g.load(g.addOperand(Element::f32, Access::in, {R, V}));
    Node share = div(g, power, g.reduce(RowReduction::sum, power));
    g.store(g.addOperand(Element::f32, Access::out, {R, V}), mul(g, z, share));
    Buffer x(randomFloats(rows * v, 1)), y(randomFloats(rows * v, 2)), old = y;
    runOne(g, {&x, &y, &y});
    std::vector<double> expected;
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t k = 0; k < v; ++k)
        sum += std::exp(double(x[row * v + k]));
      for (int64_t k = 0; k < v; ++k)
        expected.push_back(old[row * v + k] * std::exp(double(x[row * v + k])) / sum);
    }
    expectClose(y, expected, 1e-6, fmt::format("{} rows", rows));
  }
}

// The powers wait for their sum in the memory that the logits had; what a row's end needs of the logits is read before.
TEST(RowKernels, SoftmaxInPlace) {
  const int64_t rows = 5;
  std::vector<NamedGraph> graphs;
  const std::vector<int64_t> widths = {1, 9, 32, 77, 9000};
  for (int64_t v : widths) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, rows), V = g.addDim(DimKind::column, v);
    RowOperand logits = g.addOperand(Element::f32, Access::in, {R, V});
    Node x = g.load(logits), label = g.load(g.addOperand(Element::i32, Access::in, {R}));
    Node power = exp(g, sub(g, x, g.reduce(RowReduction::max, x)));
    g.store(g.addOperand(Element::f32, Access::out, {R, V}), div(g, power, g.reduce(RowReduction::sum, power)));
    g.store(g.addOperand(Element::f32, Access::out, {R}), g.load(logits, {{V, label}}));
    graphs.push_back({fmt::format("k{}", v), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t v = widths[number];
    Buffer x(randomFloats(rows * v, 1, -20, 20)), old = x, picked(rows);
    Buffer labels(randomInts(rows, 2, 0, int32_t(v) - 1));
    library.run(number, {&x, &labels, &x, &picked});
    std::vector<double> expected, expectedPick;
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t k = 0; k < v; ++k)
        sum += std::exp(double(old[row * v + k]));
      for (int64_t k = 0; k < v; ++k)
        expected.push_back(std::exp(double(old[row * v + k])) / sum);
      expectedPick.push_back(old[row * v + labels.ints()[row]]);
    }
    expectClose(x, expected, 1e-6, fmt::format("v = {}", v));
    expectClose(picked, expectedPick, 0);
  }
}

// Columns that do not merge: sum over g and d of x[r,g,d] * w[d] * u[g].
TEST(RowKernels, ReductionOverTwoColumnDims) {
  std::vector<NamedGraph> graphs;
  const std::vector<int64_t> widths = {1, 5, 16, 19, 40, 66};
  for (int64_t d : widths) {
    RowGraph g;
    Dim R = g.addDim(DimKind::row, 5), G = g.addDim(DimKind::column, 3), D = g.addDim(DimKind::column, d);
    Node x = g.load(g.addOperand(Element::f32, Access::in, {R, G, D}));
    Node w = g.load(g.addOperand(Element::f32, Access::in, {D})),
         u = g.load(g.addOperand(Element::f32, Access::in, {G}));
    Node product = mul(g, mul(g, x, w), u);
    g.store(g.addOperand(Element::f32, Access::out, {R}), g.reduce(RowReduction::sum, product));
    g.store(g.addOperand(Element::f32, Access::accumulate, {R, G, D}), product);
    graphs.push_back({fmt::format("k{}", d), g});
  }
  Library library(graphs);
  for (size_t number = 0; number < widths.size(); ++number) {
    int64_t d = widths[number];
    Buffer x(randomFloats(5 * 3 * d, 1)), w(randomFloats(d, 2)), u(randomFloats(3, 3)), sum(5), y(5 * 3 * d, 10);
    library.run(number, {&x, &w, &u, &sum, &y});
    std::vector<double> expected(5), products;
    for (int64_t i = 0; i < 5 * 3 * d; ++i) {
      double product = double(x[i]) * w[i % d] * u[i / d % 3];
      expected[i / (3 * d)] += product;
      products.push_back(10 + product);
    }
    expectClose(sum, expected, 2e-6);
    expectClose(y, products, 1e-6);
  }
}

// The sum of squares of a flat buffer keeps its accuracy where a single accumulator of f32 would not.
TEST(RowKernels, FullReduction) {
  const int64_t n = 3'000'011;
  RowGraph g;
  Dim N = g.addDim(DimKind::column, n);
  Node x = g.load(g.addOperand(Element::f32, Access::in, {N}));
  g.store(g.addOperand(Element::f32, Access::accumulate, {}), g.reduce(RowReduction::sum, mul(g, x, x)));
  EXPECT_EQ(describeKernel(g).range, 1);
  Buffer values(randomFloats(n, 1, 0.9f, 1.1f)), sum(1, 0);
  runOne(g, {&values, &sum});
  double expected = 0;
  for (int64_t i = 0; i < n; ++i)
    expected += double(values[i]) * values[i];
  EXPECT_NEAR(sum[0] / expected, 1, 1e-6);
}

TEST(RowKernels, AdamWOnAFlatBuffer) {
  const int64_t n = 2000 + 13;
  RowGraph g;
  Dim N = g.addDim(DimKind::column, n);
  auto flat = [&] { return g.load(g.addOperand(Element::f32, Access::in, {N})); };
  Node old = flat(), m = flat(), v = flat(), gradient = flat();
  auto step = [&] { return g.load(g.addOperand(Element::f32, Access::in, {})); };
  Node lr = step(), beta1 = step(), beta2 = step(), eps = step(), decay = step(), c1 = step(), c2 = step();
  Node one = g.constant(1);
  Node newM = add(g, mul(g, beta1, m), mul(g, sub(g, one, beta1), gradient));
  Node newV = add(g, mul(g, beta2, v), mul(g, sub(g, one, beta2), mul(g, gradient, gradient)));
  Node update = div(g, div(g, newM, c1), add(g, sqrt(g, div(g, newV, c2)), eps));
  for (Node result : {sub(g, old, mul(g, lr, add(g, update, mul(g, decay, old)))), newM, newV})
    g.store(g.addOperand(Element::f32, Access::out, {N}), result);
  Buffer w(randomFloats(n, 1)), m0(randomFloats(n, 2)), v0(randomFloats(n, 3, 0, 1)), gr(randomFloats(n, 4));
  Buffer w1 = w, m1 = m0, v1 = v0;
  std::vector<float> constants = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.19f, 0.0975f};
  std::vector<Buffer> scalars;
  for (float constant : constants)
    scalars.push_back(Buffer(std::vector<float>{constant}));
  std::vector<Buffer *> operands = {&w1, &m1, &v1, &gr};
  for (Buffer &scalar : scalars)
    operands.push_back(&scalar);
  operands.insert(operands.end(), {&w1, &m1, &v1}); // in place
  runOne(g, operands);
  std::vector<double> expectedW, expectedM, expectedV;
  for (int64_t i = 0; i < n; ++i) {
    expectedM.push_back(0.9 * m0[i] + 0.1 * gr[i]);
    expectedV.push_back(0.95 * v0[i] + 0.05 * gr[i] * gr[i]);
    double change = expectedM[i] / 0.19 / (std::sqrt(expectedV[i] / 0.0975) + 1e-8);
    expectedW.push_back(w[i] - 1e-2 * (change + 0.1 * w[i]));
  }
  expectClose(w1, expectedW, 2e-6);
  expectClose(m1, expectedM, 1e-6);
  expectClose(v1, expectedV, 1e-6);
}

} // namespace mgc::rowgen::test
