// Math.h against double precision, on vectors and on scalars (a per-row node), over wide ranges.
#include "codegen/rows/graph/Math.h"
#include "codegen/rows/graph/RowOps.h"
#include "test/codegen/rows/Harness.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace mgc::rowgen::test {

using Emitter = mlir::Value (*)(mlir::OpBuilder &, mlir::Location, mlir::Value);
constexpr size_t kSize = 1 << 18;

static RowGraph apply(Emitter emit, bool asScalars) {
  RowGraph g;
  Dim N = g.addDim(DimKind::row, kSize), C = g.addDim(DimKind::column, asScalars ? 2 : 1);
  Node x = g.load(g.addOperand(Element::f32, Access::in, {N}));
  Body body = [emit](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange v) { return emit(b, loc, v[0]); };
  Node y = g.map("f", body, {x});
  if (asScalars) // The reduction over the columns keeps rows apart: the function is computed on scalars.
    y = g.reduce(RowReduction::max, add(g, y, mul(g, toF32(g, g.index(C)), g.constant(0))));
  g.store(g.addOperand(Element::f32, Access::out, {N}), y);
  return g;
}

static std::vector<float> evaluate(Emitter emit, const std::vector<float> &inputs) {
  Library library({{"vectors", apply(emit, false)}, {"scalars", apply(emit, true)}});
  Buffer x(inputs), y(inputs.size()), scalars(inputs.size());
  library.run(0, {&x, &y});
  library.run(1, {&x, &scalars});
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!std::isnan(y[i]))
      EXPECT_EQ(y[i], scalars[i]) << "vector and scalar differ at " << inputs[i];
  return std::vector<float>(y.floats(), y.floats() + y.size());
}

// Half uniform in [low, high], half spread over all exponents up to the bound.
static std::vector<float> samples(float low, float high) {
  std::vector<float> values = randomFloats(kSize, 1, low, high);
  std::vector<float> exponents = randomFloats(kSize, 2, -126, std::log2(high));
  for (size_t i = 0; i < kSize; i += 2)
    values[i] = std::copysign(std::exp2(exponents[i]), low < 0 ? values[i] : 1.0f);
  return values;
}

// Largest error in units of the last place, and relative and absolute, where the result is a normal number.
struct Errors {
  double ulp = 0, relative = 0, absolute = 0;
};
static Errors compare(Emitter emit, double (*exact)(double), const std::vector<float> &inputs) {
  std::vector<float> results = evaluate(emit, inputs);
  Errors errors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    double expected = exact(inputs[i]);
    double error = std::abs(results[i] - expected);
    if (!(error <= 1e-37)) {
      EXPECT_FALSE(std::isnan(error)) << "at " << inputs[i];
      errors.absolute = std::max(errors.absolute, error);
      errors.relative = std::max(errors.relative, error / std::abs(expected));
      double ulp = std::exp2(std::max(-126.0, std::floor(std::log2(std::abs(expected)))) - 23);
      errors.ulp = std::max(errors.ulp, error / ulp);
    }
  }
  return errors;
}

static std::vector<float> special(Emitter emit, std::vector<float> inputs) {
  size_t count = inputs.size();
  inputs.resize(kSize, 1);
  std::vector<float> results = evaluate(emit, inputs);
  results.resize(count);
  return results;
}

TEST(MathAccuracy, Exp) {
  Errors errors = compare(emitExp, [](double x) { return std::exp(x); }, samples(-87, 88.7f));
  EXPECT_LE(errors.ulp, kMathErrors.expUlp);
  auto results = special(emitExp, {0, -INFINITY, INFINITY, NAN, 88.73f, 1e30f, -1e30f, -104.5f, -100, -88, -95});
  EXPECT_EQ(results[0], 1);
  EXPECT_EQ(results[1], 0);
  EXPECT_EQ(results[2], INFINITY);
  EXPECT_TRUE(std::isnan(results[3]));
  EXPECT_EQ(results[4], INFINITY);
  EXPECT_EQ(results[5], INFINITY);
  EXPECT_EQ(results[6], 0);
  EXPECT_EQ(results[7], 0);
  for (size_t i = 8; i < 11; ++i) { // subnormal
    double x[] = {-100, -88, -95};
    EXPECT_NEAR(results[i] / std::exp(x[i - 8]), 1, i == 8 ? 0.05 : 1e-3);
  }
}

TEST(MathAccuracy, Log) {
  auto exact = [](double x) { return std::log(x); };
  EXPECT_LE(compare(emitLog, exact, samples(1e-38f, 1e38f)).ulp, 2);
  EXPECT_LE(compare(emitLog, exact, randomFloats(kSize, 3, 0.5f, 2)).ulp, 2);
  auto results = special(emitLog, {1, 0, -0.0f, -1, INFINITY, NAN, -INFINITY, 1e-42f});
  EXPECT_EQ(results[0], 0);
  EXPECT_EQ(results[1], -INFINITY);
  EXPECT_EQ(results[2], -INFINITY);
  EXPECT_TRUE(std::isnan(results[3]));
  EXPECT_EQ(results[4], INFINITY);
  EXPECT_TRUE(std::isnan(results[5]));
  EXPECT_TRUE(std::isnan(results[6]));
  EXPECT_NEAR(results[7], std::log(double(1e-42f)), 1e-5);
}

TEST(MathAccuracy, Sigmoid) {
  EXPECT_LE(compare(
                emitSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, samples(-87, 87))
                .relative,
            kMathErrors.sigmoid);
  auto results = special(emitSigmoid, {INFINITY, -INFINITY, NAN, 0, 200, -200});
  EXPECT_EQ(results[0], 1);
  EXPECT_EQ(results[1], 0);
  EXPECT_TRUE(std::isnan(results[2]));
  EXPECT_EQ(results[3], 0.5);
  EXPECT_EQ(results[4], 1);
  EXPECT_EQ(results[5], 0);
}

TEST(MathAccuracy, Softplus) {
  auto exact = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  EXPECT_LE(compare(emitSoftplus, exact, samples(-87, 87)).relative, 1e-6);
  auto results = special(emitSoftplus, {INFINITY, -INFINITY, NAN, 0, 200, -200});
  EXPECT_EQ(results[0], INFINITY);
  EXPECT_EQ(results[1], 0);
  EXPECT_TRUE(std::isnan(results[2]));
  EXPECT_NEAR(results[3], std::log(2.0), 1e-7);
  EXPECT_EQ(results[4], 200);
  EXPECT_EQ(results[5], 0);
}

TEST(MathAccuracy, Tanh) {
  const auto exact = [](double x) { return std::tanh(x); };
  EXPECT_LE(compare(emitTanh, exact, samples(-12, 12)).relative, 3e-7);
  EXPECT_LE(compare(emitTanh, exact, randomFloats(kSize, 3, 0.5f, 0.75f)).relative, 3e-7);
  auto results = special(emitTanh, {INFINITY, -INFINITY, NAN, 0, -0.0f, 200, -200});
  EXPECT_EQ(results[0], 1);
  EXPECT_EQ(results[1], -1);
  EXPECT_TRUE(std::isnan(results[2]));
  EXPECT_EQ(results[3], 0);
  EXPECT_TRUE(results[4] == 0 && std::signbit(results[4]));
  EXPECT_EQ(results[5], 1);
  EXPECT_EQ(results[6], -1);
}

TEST(MathAccuracy, Erfc) {
  EXPECT_LE(compare(emitErfc, [](double x) { return std::erfc(x); }, samples(-6, 9)).relative, 2e-6);
  auto results = special(emitErfc, {INFINITY, -INFINITY, NAN, 0});
  EXPECT_EQ(results[0], 0);
  EXPECT_EQ(results[1], 2);
  EXPECT_TRUE(std::isnan(results[2]));
  EXPECT_EQ(results[3], 1);
}

TEST(MathAccuracy, SinAndCos) {
  for (float bound : {1.0f, 100.0f, 1e5f, 1e6f}) {
    EXPECT_LE(compare(emitSin, [](double x) { return std::sin(x); }, samples(-bound, bound)).absolute, 2e-7) << bound;
    EXPECT_LE(compare(emitCos, [](double x) { return std::cos(x); }, samples(-bound, bound)).absolute, 2e-7) << bound;
  }
  auto results = special(emitSin, {0, INFINITY, NAN, 1e9f});
  EXPECT_EQ(results[0], 0);
  for (size_t i = 1; i < 4; ++i)
    EXPECT_TRUE(std::isnan(results[i]));
  EXPECT_EQ(special(emitCos, {0})[0], 1);
}

TEST(MathAccuracy, SquareRoots) {
  EXPECT_LE(compare(emitSqrt, [](double x) { return std::sqrt(x); }, samples(1e-38f, 1e38f)).ulp, 0.501);
  EXPECT_LE(compare(emitRsqrt, [](double x) { return 1 / std::sqrt(x); }, samples(1e-38f, 1e38f)).ulp, 1.5);
  auto results = special(emitRsqrt, {0, INFINITY, -1});
  EXPECT_EQ(results[0], INFINITY);
  EXPECT_EQ(results[1], 0);
  EXPECT_TRUE(std::isnan(results[2]));
}

} // namespace mgc::rowgen::test
