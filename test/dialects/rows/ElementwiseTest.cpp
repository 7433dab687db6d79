// Sums, products, activations and rotary positions.
#include "OpKernel.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

constexpr int kS = 5, kB = 2, kH = 37;

std::vector<double> doubles(Buffer &buffer) {
  return std::vector<double>(buffer.floats(), buffer.floats() + buffer.size());
}

TEST(Elementwise, AddBroadcastsOverLeadingDims) {
  Buffer x(randomFloats(kS * kB * kH, 1)), bias(randomFloats(kH, 2));
  std::string t = f32("s:5 b:2 h:37");
  auto y = runRowOps(oneOp("add", {t, f32("h:37")}, {t}), {x, bias});
  std::vector<double> expected;
  for (int i = 0; i < kS * kB * kH; ++i)
    expected.push_back(double(x[i]) + bias[i % kH]);
  expectClose(y[0], expected, 1e-6);
}

TEST(Elementwise, UnzipAndZipAreEachOthersReverse) {
  Buffer pairs(randomFloats(kS * kH * 2, 1));
  const std::string both = f32("s:5 h:37 j:2"), one = f32("s:5 h:37");
  auto parts = runRowOps(oneOp("unzip", {both}, {one, one}), {pairs});
  for (int i = 0; i < kS * kH; ++i) {
    EXPECT_EQ(parts[0][i], pairs[2 * i]);
    EXPECT_EQ(parts[1][i], pairs[2 * i + 1]);
  }
  auto again = runRowOps(oneOp("zip", {one, one}, {both}), {parts[0], parts[1]});
  for (int i = 0; i < 2 * kS * kH; ++i)
    EXPECT_EQ(again[0][i], pairs[i]);
}

// At a bound the gradient passes, as in PyTorch.
TEST(Elementwise, ClampAndItsGradient) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  Buffer x(std::vector<float>{-3, -2, -1.5f, 0, 1, 1.5f, 7, -infinity, infinity, nan}), dy(10, 5.0f);
  const std::string t = f32("h:10");
  const auto run = [&](const std::string &attributes) {
    auto y = runRowOps(oneOp("clamp", {t}, {t}, attributes), {x});
    auto dx = runRowOps(oneOp("clamp_grad", {t, t}, {t}, attributes), {x, dy});
    return std::pair(std::vector<float>(y[0].floats(), y[0].floats() + 10),
                     std::vector<float>(dx[0].floats(), dx[0].floats() + 10));
  };
  auto [both, dboth] = run("{least = -2.0 : f64, most = 1.5 : f64}");
  EXPECT_TRUE(std::isnan(both.back()));
  both.pop_back(), dboth.pop_back();
  EXPECT_EQ(both, (std::vector<float>{-2, -2, -1.5f, 0, 1, 1.5f, 1.5f, -2, 1.5f}));
  EXPECT_EQ(dboth, (std::vector<float>{0, 5, 5, 5, 5, 5, 0, 0, 0}));
  auto [upper, dupper] = run("{most = 1.5 : f64}");
  EXPECT_TRUE(std::isnan(upper.back()));
  upper.pop_back(), dupper.pop_back();
  EXPECT_EQ(upper, (std::vector<float>{-3, -2, -1.5f, 0, 1, 1.5f, 1.5f, -infinity, 1.5f}));
  EXPECT_EQ(dupper, (std::vector<float>{5, 5, 5, 5, 5, 5, 0, 5, 0}));
}

TEST(Elementwise, MulBroadcastsOverInnerDims) {
  Buffer x(randomFloats(kS * kB * kH, 1)), w(randomFloats(kS * kB, 2));
  std::string t = f32("s:5 b:2 h:37");
  auto y = runRowOps(oneOp("mul", {t, f32("s:5 b:2")}, {t}), {x, w});
  std::vector<double> expected;
  for (int i = 0; i < kS * kB * kH; ++i)
    expected.push_back(double(x[i]) * w[i / kH]);
  expectClose(y[0], expected, 1e-6);
}

TEST(Elementwise, AccumulateSignsAndScale) {
  Buffer a(randomFloats(40, 1)), b(randomFloats(40, 2)), c(randomFloats(40, 3));
  std::string t = f32("s:5 h:8");
  auto y = runRowOps(oneOp("accumulate", {t, t, t}, {t}, "{signs = array<i64: -1, 1, -1>}"), {a, b, c});
  auto z = runRowOps(oneOp("scale", {t}, {t}, "{factor = -0.125 : f64}"), {a});
  std::vector<double> sums, scaled;
  for (int i = 0; i < 40; ++i)
    sums.push_back(-double(a[i]) + b[i] - c[i]), scaled.push_back(a[i] * -0.125);
  expectClose(y[0], sums, 1e-6);
  expectClose(z[0], scaled, 1e-6);
}

// Every subset of the dimensions of x[s, b, h] that a sum can drop.
TEST(Elementwise, SumDropsAnyDims) {
  Buffer x(randomFloats(kS * kB * kH, 4));
  struct Case {
    std::string result;
    int strideS, strideB, strideH, size;
  };
  for (const Case &c :
       {Case{"h:37", 0, 0, 1, kH}, Case{"s:5 b:2", kB, 1, 0, kS * kB}, Case{"b:2 h:37", 0, kH, 1, kB * kH},
        Case{"s:5 h:37", kH, 0, 1, kS * kH}, Case{"s:5", 1, 0, 0, kS}, Case{"", 0, 0, 0, 1}}) {
    std::vector<double> expected(c.size, 0);
    for (int s = 0; s < kS; ++s)
      for (int b = 0; b < kB; ++b)
        for (int h = 0; h < kH; ++h)
          expected[s * c.strideS + b * c.strideB + h * c.strideH] += x[(s * kB + b) * kH + h];
    auto y = runRowOps(oneOp("sum", {f32("s:5 b:2 h:37")}, {f32(c.result)}), {x});
    expectClose(y[0], expected, 1e-5, c.result);
    KernelContext adding;
    adding.accumulate = true, adding.start = 3;
    auto added = runRowOps(oneOp("sum", {f32("s:5 b:2 h:37")}, {f32(c.result)}), {x}, adding);
    for (double &value : expected)
      value += 3;
    expectClose(added[0], expected, 1e-5, c.result + " added");
  }
}

double gelu(const std::string &form, double x) {
  if (form == "erf")
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  if (form == "tanh")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x / (1 + std::exp(-1.702 * x));
}
double silu(double x) { return x / (1 + std::exp(-x)); }

// The value against its definition, the gradient against the definition's difference quotient.
template <typename F> void checkActivation(const std::string &name, const std::string &attributes, F f) {
  Buffer x(randomFloats(kS * kH, 5, -6, 6)), dy(randomFloats(kS * kH, 6));
  std::string t = f32("s:5 f:37");
  auto y = runRowOps(oneOp(name, {t}, {t}, attributes), {x});
  auto dx = runRowOps(oneOp(name + "_grad", {t, t}, {t}, attributes), {x, dy});
  std::vector<double> values, slopes;
  for (int i = 0; i < kS * kH; ++i)
    values.push_back(f(x[i])), slopes.push_back(dy[i] * slope(f, x[i]));
  expectClose(y[0], values, 2e-6, name + attributes);
  expectClose(dx[0], slopes, 2e-6, name + "_grad" + attributes);
}

TEST(Elementwise, Activations) {
  for (std::string form : {"erf", "tanh", "sigmoid"})
    checkActivation("gelu", "{form = \"" + form + "\"}", [&](double x) { return gelu(form, x); });
  checkActivation("silu", "", silu);
  checkActivation("sigmoid", "", [](double x) { return 1 / (1 + std::exp(-x)); });
  checkActivation("relu", "", [](double x) { return x > 0 ? x : 0; });
  checkActivation("relu", "{slope = 0.01 : f64}", [](double x) { return x > 0 ? x : 0.01 * x; });
  checkActivation("relu", "{most = 2.5 : f64}", [](double x) { return std::min(std::max(x, 0.0), 2.5); });
  checkActivation("tanh", "", [](double x) { return std::tanh(x); });
  checkActivation("mish", "", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); });
  checkActivation("laplace", "",
                  [](double x) { return 0.5 * (1 + std::erf((x - 0.707107) / (0.282095 * std::sqrt(2.0)))); });
  checkActivation("hard_swish", "", [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; });
}

// Far out functions keep their limits, and at a corner the gradients are those of PyTorch.
TEST(Elementwise, ActivationsFarOutAndAtCorners) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::string t = f32("h:6");
  struct Case {
    std::string name, attributes;
    std::vector<float> x, y, slopes;
  };
  for (const Case &c : std::vector<Case>{
           {"mish", "", {-300, -100, 0, 30, 100, 3e38f}, {0, 0, 0, 30, 100, 3e38f}, {0, 0, 0.6f, 1, 1, 1}},
           {"tanh", "", {-infinity, -100, 0, 30, 100, infinity}, {-1, -1, 0, 1, 1, 1}, {0, 0, 1, 0, 0, 0}},
           {"laplace", "", {-infinity, -100, -9, 30, 100, infinity}, {0, 0, 0, 1, 1, 1}, {0, 0, 0, 0, 0, 0}},
           {"hard_swish", "", {-100, -3, 0, 3, 4, 100}, {0, 0, 0, 3, 4, 100}, {0, 0, 0.5f, 1, 1, 1}},
           {"relu", "{most = 6.0 : f64}", {-1, 0, 3, 6, 7, infinity}, {0, 0, 3, 6, 6, 6}, {0, 0, 1, 0, 0, 0}},
           {"relu", "{slope = 0.5 : f64}", {-8, -2, 0, 3, 6, 7}, {-4, -1, 0, 3, 6, 7}, {0.5f, 0.5f, 0.5f, 1, 1, 1}}}) {
    Buffer x(c.x), dy(6, 2.0f);
    auto y = runRowOps(oneOp(c.name, {t}, {t}, c.attributes), {x});
    auto dx = runRowOps(oneOp(c.name + "_grad", {t, t}, {t}, c.attributes), {x, dy});
    std::vector<double> slopes;
    for (float slope : c.slopes)
      slopes.push_back(2 * slope);
    expectClose(y[0], {c.y.begin(), c.y.end()}, 1e-6, c.name + c.attributes);
    expectClose(dx[0], slopes, 1e-6, c.name + "_grad" + c.attributes);
  }
}

// Rows of size d, each `group` of them of a token, with pairs (i, i + apart) turned by the angles of the token: cosines, then sines.
std::vector<double> rotated(Buffer &x, const std::vector<double> &angles, int group, int d, int pairs,
                            bool areNeighbours = false, bool isInverse = false) {
  std::vector<double> result = doubles(x);
  for (int row = 0; row < int(x.size()) / d; ++row)
    for (int i = 0; i < pairs; ++i) {
      const double *cosines = &angles[row / group * 2 * pairs];
      const double cos = cosines[i], sin = isInverse ? -cosines[i + pairs] : cosines[i + pairs];
      const int first = row * d + (areNeighbours ? 2 * i : i), second = first + (areNeighbours ? 1 : pairs);
      result[first] = x[first] * cos - x[second] * sin;
      result[second] = x[second] * cos + x[first] * sin;
    }
  return result;
}

// Half of each row rotates: rows of pairs, of which two turn.
TEST(Elementwise, RopeOfAPart) {
  constexpr int tokens = 6, g = 3, d = 16, turning = 8;
  Buffer x(randomFloats(tokens * g * d, 7)), angles(randomFloats(tokens * turning, 8));
  std::string t = f32("s:3 b:2 g:3 d:16"), c = f32("s:3 b:2 u:8");
  auto y = runRowOps(oneOp("rope", {t, c}, {t}, ""), {x, angles});
  expectClose(y[0], rotated(x, doubles(angles), g, d, turning / 2), 2e-6);
}

TEST(Elementwise, RopeOfNeighbours) {
  constexpr int tokens = 6, g = 3, d = 10;
  Buffer x(randomFloats(tokens * g * d, 7)), angles(randomFloats(tokens * d, 8));
  std::string t = f32("s:3 b:2 g:3 d:10"), c = f32("s:3 b:2 d:10");
  auto y = runRowOps(oneOp("rope", {t, c}, {t}, "{interleaved}"), {x, angles});
  expectClose(y[0], rotated(x, doubles(angles), g, d, d / 2, true), 2e-6);
  auto back = runRowOps(oneOp("rope", {t, c}, {t}, "{interleaved, inverse}"), {x, angles});
  expectClose(back[0], rotated(x, doubles(angles), g, d, d / 2, true, true), 2e-6);
}

TEST(Elementwise, BroadcastRepeats) {
  Buffer x(randomFloats(6 * 5, 7));
  std::vector<double> expected;
  for (int row = 0; row < 6 * 3; ++row)
    for (int i = 0; i < 5; ++i)
      expected.push_back(x[row / 3 * 5 + i]);
  auto y = runRowOps(oneOp("broadcast", {f32("s:3 b:2 u:5")}, {f32("s:3 b:2 g:3 u:5")}, ""), {x});
  expectClose(y[0], expected, 0);
}

TEST(Elementwise, AnglesOfQueriesGrowWithThePeriods) {
  const std::vector<float> frequencies = {1.0f, 0.3f};
  const std::vector<int32_t> places = {0, 7, 8, 15, 16, 4000};
  Buffer positions(places);
  auto found = runRowOps(oneOp("cos_sin", {i32("s:6")}, {f32("s:6 d:4")},
                               "{frequencies = array<f32: 1.0, 0.3>, scale = 2.0, growth = 0.1, period = 8}"),
                         {positions});
  std::vector<double> expected;
  for (int32_t position : places)
    for (double (*function)(double) :
         {static_cast<double (*)(double)>(std::cos), static_cast<double (*)(double)>(std::sin)})
      for (float frequency : frequencies)
        expected.push_back(2 * (1 + 0.1 * std::log(1 + position / 8)) * function(float(position) * frequency));
  expectClose(found[0], expected, 3e-6);
}

TEST(Elementwise, RopeRotatesHalvesAndBack) {
  constexpr int s = 7, b = 2, g = 3, d = 10;
  const std::vector<float> frequencies = {1.0f, 0.3f, 0.07f, 0.011f, 0.002f};
  Buffer x(randomFloats(s * b * g * d, 7)), positions(randomInts(s * b, 8, 0, 4000));
  std::string t = f32("s:7 b:2 g:3 d:10"), p = i32("s:7 b:2"), c = f32("s:7 b:2 d:10");
  std::string f = "frequencies = array<f32: 1.0, 0.3, 0.07, 0.011, 0.002>";
  auto cosSin = runRowOps(oneOp("cos_sin", {p}, {c}, "{" + f + "}"), {positions});
  std::vector<double> angles(s * b * d);
  for (int token = 0; token < s * b; ++token)
    for (int i = 0; i < d / 2; ++i) {
      float angle = float(positions.ints()[token]) * frequencies[i];
      angles[token * d + i] = std::cos(angle);
      angles[token * d + i + d / 2] = std::sin(angle);
    }
  expectClose(cosSin[0], angles, 1e-6);
  auto y = runRowOps(oneOp("rope", {t, c}, {t}, ""), {x, cosSin[0]});
  expectClose(y[0], rotated(x, angles, g, d, d / 2), 2e-6);
  auto back = runRowOps(oneOp("rope", {t, c}, {t}, "{inverse}"), {y[0], cosSin[0]});
  expectClose(back[0], doubles(x), 2e-6);
}

} // namespace
} // namespace mgc::test
