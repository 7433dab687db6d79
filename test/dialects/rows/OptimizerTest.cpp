// The step's end: norm, clip factor, updates in place.
#include "OpKernel.h"

#include "plan/StepScalars.h"

#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>

namespace mgc::test {
namespace {

const std::string kScalars = f32(fmt::format("scalar:{}", plan::kStepScalars.size()));

// plan::kStepScalars, others 1.
std::vector<float> stepScalars(const std::map<std::string_view, float> &known) {
  std::vector<float> scalars(plan::kStepScalars.size(), 1);
  for (const auto &[name, value] : known)
    scalars[plan::scalarNamed(name)] = value;
  return scalars;
}

TEST(Optimizer, SumSquares) {
  Buffer x(randomFloats(1003, 1, -3, 3));
  double sum = 0;
  for (int i = 0; i < 1003; ++i)
    sum += double(x[i]) * x[i];
  auto y = runRowOps(oneOp("sum_squares", {f32("flat:1003")}, {f32("")}), {x});
  expectClose(y[0], {sum}, 1e-6);
}

TEST(Optimizer, SumSquaresOfParts) {
  constexpr int parts = 5, elements = 7 * 16;
  Buffer x(randomFloats(parts * elements, 1, -3, 3));
  std::vector<double> sums(parts);
  for (int i = 0; i < parts * elements; ++i)
    sums[i / elements] += double(x[i]) * x[i];
  auto y = runRowOps(oneOp("sum_squares", {f32("part:5 flat:7 lane:16")}, {f32("part:5")}), {x});
  expectClose(y[0], sums, 1e-6);
}

TEST(Optimizer, ClipFactor) {
  struct Case {
    float squares, tokens, clip;
    double norm, factor;
  };
  for (const Case &c : {Case{400, 4, 1, 5, 1 / (5 + 1e-6) / 4},           // clipped
                        Case{400, 4, 10, 5, 0.25},                        // below the bound
                        Case{400, 4, 0, 5, 0.25},                         // no clipping
                        Case{0, 4, 1, 0, 0.25}, Case{400, 0, 1, 0, 0}}) { // no tokens: nothing moves
    auto y = runRowOps(oneOp("clip_factor", {f32(""), f32(""), f32("")}, {f32(""), f32("")}),
                       {Buffer(std::vector<float>{c.squares}), Buffer(std::vector<float>{c.tokens}),
                        Buffer(std::vector<float>{c.clip})});
    expectClose(y[0], {c.norm}, 1e-6, "norm");
    expectClose(y[1], {c.factor}, 1e-6, "factor");
  }
}

TEST(Optimizer, AdamW) {
  constexpr int n = 67;
  const Buffer scalars(stepScalars({{"lr", 0.01f},
                                    {"beta1", 0.9f},
                                    {"beta2", 0.95f},
                                    {"eps", 1e-8f},
                                    {"weight_decay", 0.1f},
                                    {"bias_correction1", 0.271f},
                                    {"bias_correction2", 0.142f}}));
  Buffer value(randomFloats(n, 1)), gradient(randomFloats(n, 2)), first(randomFloats(n, 3)),
      second(randomFloats(n, 4, 0, 1));
  std::string t = f32("flat:67");
  for (bool decay : {false, true}) {
    auto y = runRowOps(oneOp("adamw", {t, t, t, t, f32(""), kScalars}, {t, t, t},
                             std::string("{decay = ") + (decay ? "true" : "false") + "}"),
                       {value, gradient, first, second, Buffer(std::vector<float>{0.5f}), scalars});
    std::vector<double> values, firsts, seconds;
    for (int i = 0; i < n; ++i) {
      double g = gradient[i] * 0.5, m = 0.9 * first[i] + 0.1 * g, v = 0.95 * second[i] + 0.05 * g * g;
      double w = value[i] * (decay ? 1 - 0.01 * 0.1 : 1);
      firsts.push_back(m), seconds.push_back(v);
      values.push_back(w - 0.01 * (m / 0.271f) / (std::sqrt(v / 0.142f) + 1e-8));
    }
    expectClose(y[0], values, 1e-6, "value");
    expectClose(y[1], firsts, 1e-6, "first moment");
    expectClose(y[2], seconds, 1e-6, "second moment");
  }
}

TEST(Optimizer, Sgd) {
  constexpr int n = 67;
  const Buffer scalars(stepScalars({{"lr", 0.01f}, {"momentum", 0.9f}, {"weight_decay", 0.1f}}));
  Buffer value(randomFloats(n, 1)), gradient(randomFloats(n, 2)), buffer(randomFloats(n, 3));
  std::string t = f32("flat:67");
  for (bool decay : {false, true}) {
    auto y = runRowOps(
        oneOp("sgd", {t, t, t, f32(""), kScalars}, {t, t}, std::string("{decay = ") + (decay ? "true" : "false") + "}"),
        {value, gradient, buffer, Buffer(std::vector<float>{0.5f}), scalars});
    std::vector<double> values, buffers;
    for (int i = 0; i < n; ++i) {
      buffers.push_back(0.9 * buffer[i] + gradient[i] * 0.5 + (decay ? 0.1 * value[i] : 0));
      values.push_back(value[i] - 0.01 * buffers.back());
    }
    expectClose(y[0], values, 1e-6, "value");
    expectClose(y[1], buffers, 1e-6, "buffer");
  }
}

// The last elements: a moment and a gradient of 0 do not move the value; a NaN reaches it.
TEST(Optimizer, Lion) {
  constexpr int n = 67;
  const Buffer scalars(
      stepScalars({{"lr", 0.01f}, {"lion_beta1", 0.9f}, {"lion_beta2", 0.99f}, {"weight_decay", 0.1f}}));
  Buffer value(randomFloats(n, 1)), gradient(randomFloats(n, 2)), moment(randomFloats(n, 3));
  gradient[n - 2] = moment[n - 2] = 0, gradient[n - 1] = std::numeric_limits<float>::quiet_NaN();
  std::string t = f32("flat:67");
  for (bool decay : {false, true}) {
    auto y = runRowOps(oneOp("lion", {t, t, t, f32(""), kScalars}, {t, t},
                             std::string("{decay = ") + (decay ? "true" : "false") + "}"),
                       {value, gradient, moment, Buffer(std::vector<float>{0.5f}), scalars});
    std::vector<double> values, moments;
    for (int i = 0; i < n; ++i) {
      double g = gradient[i] * 0.5, mix = 0.9 * moment[i] + 0.1 * g, sign = mix > 0 ? 1 : mix < 0 ? -1 : mix;
      moments.push_back(0.99 * moment[i] + 0.01 * g);
      values.push_back(value[i] * (decay ? 1 - 0.01 * 0.1 : 1) - 0.01 * sign);
    }
    expectClose(y[0], values, 1e-6, "value");
    expectClose(y[1], moments, 1e-6, "moment");
  }
}

// Above the mean down, below it up, and at the mean nothing: not even a -0 that becomes 0.
TEST(Optimizer, BalanceBias) {
  const Buffer scalars(stepScalars({{"router_bias_rate", 0.125f}}));
  Buffer value(std::vector<float>{1, 2, 3, -0.5f, 0}), load(std::vector<float>{0, 5, 2.5f, 3, 2});
  std::string t = f32("e:5");
  auto y = runRowOps(oneOp("balance_bias", {t, t, kScalars}, {t}, "{mean = 2.5 : f64}"), {value, load, scalars});
  const std::vector<float> expected = {1.125f, 1.875f, 3, -0.625f, 0.125f};
  for (size_t e = 0; e < expected.size(); ++e)
    EXPECT_EQ(y[0][e], expected[e]) << e;
}

} // namespace
} // namespace mgc::test
