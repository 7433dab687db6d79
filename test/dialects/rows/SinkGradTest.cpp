// The gradient of attention's sinks, against the difference quotient of a softmax with one score more.
#include "test/dialects/rows/OpKernel.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

constexpr int kS = 3, kR = 2, kKeys = 4, kW = 5, kRows = kS * kR;

// One query of a head: scores of its keys, their values, and the gradient of its output.
struct Query {
  std::vector<float> scores, values, gradient;
  explicit Query(int seed)
      : scores(randomFloats(kKeys, seed)), values(randomFloats(kKeys * kW, seed + 50)),
        gradient(randomFloats(kW, seed + 100)) {}
  double lse(double sink) const {
    double sum = std::exp(sink);
    for (float score : scores)
      sum += std::exp(double(score));
    return std::log(sum);
  }
  double output(int i, double sink) const {
    double o = 0;
    for (int t = 0; t < kKeys; ++t)
      o += std::exp(scores[t] - lse(sink)) * values[t * kW + i];
    return o;
  }
  double loss(double sink) const {
    double sum = 0;
    for (int i = 0; i < kW; ++i)
      sum += gradient[i] * output(i, sink);
    return sum;
  }
};

TEST(SinkGrad, IsTheSlopeOverTheSink) {
  const std::vector<float> sinks = {0.75f, -2};
  std::vector<float> o, lse, gradient;
  std::vector<double> expected;
  for (int row = 0; row < kRows; ++row) {
    const Query query(row);
    const double sink = sinks[row % kR];
    lse.push_back(float(query.lse(sink)));
    for (int i = 0; i < kW; ++i)
      o.push_back(float(query.output(i, sink))), gradient.push_back(query.gradient[i]);
    expected.push_back(slope([&](double x) { return query.loss(x); }, sink, 1e-4));
  }
  const std::string heads = f32("s:3 b:1 g:1 r:2 w:5"), numbers = f32("s:3 b:1 g:1 r:2");
  auto found = runRowOps(oneOp("sink_grad", {heads, numbers, heads, f32("g:1 r:2")}, {numbers}),
                         {Buffer(o), Buffer(lse), Buffer(gradient), Buffer(sinks)});
  expectClose(found[0], expected, 2e-6);
}

} // namespace
} // namespace mgc::test
