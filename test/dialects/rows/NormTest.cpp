// Norms: values against their definitions, gradients against difference quotients of the definitions.
#include "OpKernel.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

constexpr int kRows = 6, kH = 21;
constexpr double kEpsilon = 1e-5;
const std::string kX = f32("s:3 b:2 h:21"), kRow = f32("s:3 b:2"), kW = f32("h:21");

// The definition; a weight without values is one that the norm lacks.
struct Norm {
  bool centered;
  std::vector<double> gamma, beta;
  double offset;
  double mean(const std::vector<double> &x) const {
    double sum = 0;
    for (double v : x)
      sum += v;
    return centered ? sum / x.size() : 0;
  }
  double rstd(const std::vector<double> &x) const {
    double m = mean(x), sum = 0;
    for (double v : x)
      sum += (v - m) * (v - m);
    return 1 / std::sqrt(sum / x.size() + kEpsilon);
  }
  double normed(const std::vector<double> &x, int i) const { return (x[i] - mean(x)) * rstd(x); }
  double y(const std::vector<double> &x, int i) const {
    return normed(x, i) * (gamma.empty() ? 1 : offset + gamma[i]) + (beta.empty() ? 0 : beta[i]);
  }
};

std::vector<double> doubles(Buffer &buffer) { return {buffer.floats(), buffer.floats() + buffer.size()}; }

// The weights of a norm, and the offset of gamma.
struct Weights {
  bool gamma = true, beta = true;
  double offset = 0;
};

struct Data {
  Buffer x{randomFloats(kRows * kH, 1, -2, 3)}, gamma{randomFloats(kH, 2)}, beta{randomFloats(kH, 3)},
      dy{randomFloats(kRows * kH, 4)};
  std::vector<double> row(int r) { return {x.floats() + r * kH, x.floats() + (r + 1) * kH}; }
  Norm norm(bool centered, const Weights &weights = {}) {
    return {centered, weights.gamma ? doubles(gamma) : std::vector<double>(),
            centered && weights.beta ? doubles(beta) : std::vector<double>(), weights.offset};
  }
};

void checkForward(Data &data, const Norm &norm, Buffer &y, Buffer *mean, Buffer &rstd) {
  std::vector<double> ys, means, rstds;
  for (int r = 0; r < kRows; ++r) {
    means.push_back(norm.mean(data.row(r))), rstds.push_back(norm.rstd(data.row(r)));
    for (int i = 0; i < kH; ++i)
      ys.push_back(norm.y(data.row(r), i));
  }
  expectClose(y, ys, 2e-6, "y");
  expectClose(rstd, rstds, 2e-6, "rstd");
  if (mean)
    expectClose(*mean, means, 2e-6, "mean");
}

void checkGradients(Data &data, const Norm &norm, Buffer &dx, Buffer &dgamma) {
  std::vector<double> dxs, dgammas(kH, 0);
  for (int r = 0; r < kRows; ++r) {
    std::vector<double> x = data.row(r);
    for (int i = 0; i < kH; ++i)
      dxs.push_back(slope(
          [&](double v) {
            std::vector<double> moved = x;
            moved[i] = v;
            double sum = 0;
            for (int j = 0; j < kH; ++j)
              sum += data.dy[r * kH + j] * norm.y(moved, j);
            return sum;
          },
          x[i]));
    for (int i = 0; i < kH; ++i)
      dgammas[i] += data.dy[r * kH + i] * norm.normed(x, i);
  }
  expectClose(dx, dxs, 4e-6, "dx");
  expectClose(dgamma, dgammas, 4e-6, "dgamma");
}

std::string offsetText(const Weights &weights) {
  return weights.offset == 0 ? "" : "offset = " + std::to_string(weights.offset) + " : f64";
}
std::string forwardText(const Weights &weights) {
  return "{epsilon = 1.0e-5 : f64" + (weights.offset == 0 ? "" : ", " + offsetText(weights)) + "}";
}
std::string gradientText(const Weights &weights) { return weights.offset == 0 ? "" : "{" + offsetText(weights) + "}"; }

// With gamma and beta as their operands, where the norm has them.
template <typename T>
std::vector<T> withWeights(std::vector<T> operands, const Weights &weights, bool hasBeta, const T &gamma,
                           const T &beta) {
  if (weights.gamma)
    operands.push_back(gamma);
  if (hasBeta && weights.beta)
    operands.push_back(beta);
  return operands;
}
std::vector<std::string> types(std::vector<std::string> operands, const Weights &weights, bool hasBeta = false) {
  return withWeights<std::string>(std::move(operands), weights, hasBeta, "gamma " + kW, "beta " + kW);
}
std::vector<Buffer> values(Data &data, std::vector<Buffer> operands, const Weights &weights, bool hasBeta = false) {
  return withWeights<Buffer>(std::move(operands), weights, hasBeta, data.gamma, data.beta);
}

const Weights kCases[] = {
    {}, {.beta = false}, {.gamma = false}, {.gamma = false, .beta = false}, {.offset = 1}, {.offset = -0.25}};

TEST(Norm, LayerNorm) {
  for (const Weights &weights : kCases) {
    Data data;
    auto forward = runRowOps(oneOp("layer_norm", types({kX}, weights, true), {kX, kRow, kRow}, forwardText(weights)),
                             values(data, {data.x}, weights, true));
    checkForward(data, data.norm(true, weights), forward[0], &forward[1], forward[2]);
    auto dx = runRowOps(oneOp("layer_norm_grad", types({kX, kRow, kRow, kX}, weights), {kX}, gradientText(weights)),
                        values(data, {data.x, forward[1], forward[2], data.dy}, weights));
    auto dgamma = runRowOps(oneOp("layer_norm_weight_grad", {kX, kRow, kRow, kX}, {kW}),
                            {data.x, forward[1], forward[2], data.dy});
    checkGradients(data, data.norm(true, weights), dx[0], dgamma[0]);
  }
}

TEST(Norm, RmsNorm) {
  for (const Weights &weights : kCases) {
    Data data;
    auto forward = runRowOps(oneOp("rms_norm", types({kX}, weights), {kX, kRow}, forwardText(weights)),
                             values(data, {data.x}, weights));
    checkForward(data, data.norm(false, weights), forward[0], nullptr, forward[1]);
    auto dx = runRowOps(oneOp("rms_norm_grad", types({kX, kRow, kX}, weights), {kX}, gradientText(weights)),
                        values(data, {data.x, forward[1], data.dy}, weights));
    auto dgamma = runRowOps(oneOp("rms_norm_weight_grad", {kX, kRow, kX}, {kW}), {data.x, forward[1], data.dy});
    checkGradients(data, data.norm(false, weights), dx[0], dgamma[0]);
  }
}

// A residual sum and the norm of it in one kernel: both leave it.
TEST(Norm, FusedWithTheSumBefore) {
  Data data;
  Buffer other(randomFloats(kRows * kH, 9));
  std::string text = "func.func @f(%a: " + kX + ", %b: " + kX + ", %g: " + kW + ") -> (" + kX + ", " + kX + ") {\n" +
                     "%0 = mg.add %a, %b : (" + kX + ", " + kX + ") -> " + kX + "\n" +
                     "%y, %r = mg.rms_norm %0 gamma %g {epsilon = 1.0e-5 : f64} : (" + kX + ", " + kW + ") -> (" + kX +
                     ", " + kRow + ")\nreturn %0, %y : " + kX + ", " + kX + "\n}";
  auto results = runRowOps(text, {data.x, other, data.gamma});
  Norm norm = data.norm(false);
  std::vector<double> sums, ys;
  for (int r = 0; r < kRows; ++r) {
    std::vector<double> row = data.row(r);
    for (int i = 0; i < kH; ++i)
      sums.push_back(row[i] += other[r * kH + i]);
    for (int i = 0; i < kH; ++i)
      ys.push_back(norm.y(row, i));
  }
  expectClose(results[0], sums, 1e-6, "sum");
  expectClose(results[1], ys, 2e-6, "norm");
}

} // namespace
} // namespace mgc::test
