// Norms: values against their definitions, gradients against difference quotients of the definitions.
#include "OpKernel.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

constexpr int kRows = 6, kH = 21;
constexpr double kEpsilon = 1e-5;
const std::string kX = f32("s:3 b:2 h:21"), kRow = f32("s:3 b:2"), kW = f32("h:21");

struct Norm {
  bool centered;
  std::vector<double> gamma, beta;
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
  double y(const std::vector<double> &x, int i) const {
    return (x[i] - mean(x)) * rstd(x) * gamma[i] + beta[i];
  }
};

struct Data {
  Buffer x{randomFloats(kRows * kH, 1, -2, 3)}, gamma{randomFloats(kH, 2)}, beta{randomFloats(kH, 3)},
      dy{randomFloats(kRows * kH, 4)};
  std::vector<double> row(int r) { return {x.floats() + r * kH, x.floats() + (r + 1) * kH}; }
  Norm norm(bool centered) {
    std::vector<double> b(kH, 0);
    if (centered)
      b.assign(beta.floats(), beta.floats() + kH);
    return {centered, {gamma.floats(), gamma.floats() + kH}, b};
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

void checkGradients(Data &data, Norm norm, Buffer &dx, Buffer &dgamma) {
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
      dgammas[i] += data.dy[r * kH + i] * (norm.y(x, i) - norm.beta[i]) / norm.gamma[i];
  }
  expectClose(dx, dxs, 4e-6, "dx");
  expectClose(dgamma, dgammas, 4e-6, "dgamma");
}

TEST(Norm, LayerNorm) {
  Data data;
  auto forward = runRowOps(oneOp("layer_norm", {kX, kW, kW}, {kX, kRow, kRow}, "{epsilon = 1.0e-5 : f64}"),
                           {data.x, data.gamma, data.beta});
  checkForward(data, data.norm(true), forward[0], &forward[1], forward[2]);
  auto dx = runRowOps(oneOp("layer_norm_grad", {kX, kW, kRow, kRow, kX}, {kX}),
                      {data.x, data.gamma, forward[1], forward[2], data.dy});
  auto dgamma = runRowOps(oneOp("layer_norm_weight_grad", {kX, kRow, kRow, kX}, {kW}),
                          {data.x, forward[1], forward[2], data.dy});
  checkGradients(data, data.norm(true), dx[0], dgamma[0]);
}

TEST(Norm, RmsNorm) {
  Data data;
  auto forward =
      runRowOps(oneOp("rms_norm", {kX, kW}, {kX, kRow}, "{epsilon = 1.0e-5 : f64}"), {data.x, data.gamma});
  checkForward(data, data.norm(false), forward[0], nullptr, forward[1]);
  auto dx =
      runRowOps(oneOp("rms_norm_grad", {kX, kW, kRow, kX}, {kX}), {data.x, data.gamma, forward[1], data.dy});
  auto dgamma = runRowOps(oneOp("rms_norm_weight_grad", {kX, kRow, kX}, {kW}), {data.x, forward[1], data.dy});
  checkGradients(data, data.norm(false), dx[0], dgamma[0]);
}

// A residual sum and the norm of it in one kernel: both leave it.
TEST(Norm, FusedWithTheSumBefore) {
  Data data;
  Buffer other(randomFloats(kRows * kH, 9));
  std::string text = "func.func @f(%a: " + kX + ", %b: " + kX + ", %g: " + kW + ") -> (" + kX + ", " + kX +
                     ") {\n" + "%0 = mg.add %a, %b : (" + kX + ", " + kX + ") -> " + kX + "\n" +
                     "%y, %r = mg.rms_norm %0, %g {epsilon = 1.0e-5 : f64} : (" + kX + ", " + kW + ") -> (" +
                     kX + ", " + kRow + ")\nreturn %0, %y : " + kX + ", " + kX + "\n}";
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
