// Tests the row ops of the routers' loss terms: rows against plain loops, gradients against difference quotients.
#include "OpKernel.h"
#include "RouteReference.h"

#include <gtest/gtest.h>

namespace mgc::test {
namespace {

constexpr int kTokens = 6, kExperts = 10, kChosen = 3;
const std::string kLogits = f32("s:3 b:2 e:10"), kToken = f32("s:3 b:2");

Row rowOf(Buffer &buffer, int token) {
  return {buffer.floats() + token * kExperts, buffer.floats() + (token + 1) * kExperts};
}
std::string attributesOf(const std::string &score) { return "{score = \"" + score + "\"}"; }

Buffer someLogits() {
  Buffer logits(randomFloats(kTokens * kExperts, 1));
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] *= 4;
  return logits;
}

Row probabilities(const std::string &score, const Row &logits) {
  Row result = Router{.experts = kExperts, .score = score}.scores(logits);
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double &x : result)
    x /= sum;
  return result;
}

double squaredLogSumExp(const Row &logits) {
  double sum = 0;
  for (double x : logits)
    sum += std::exp(x);
  return std::log(sum) * std::log(sum);
}

// The slopes of f over each logit of each token; `f` takes a row and the token's number.
template <typename F> Row slopes(Buffer &logits, F f) {
  Row result;
  for (int token = 0; token < kTokens; ++token)
    for (int e = 0; e < kExperts; ++e)
      result.push_back(slope(
          [&](double x) {
            Row moved = rowOf(logits, token);
            moved[e] = x;
            return f(moved, token);
          },
          rowOf(logits, token)[e], 1e-4));
  return result;
}

TEST(RouterLoss, MultiHotOfChosenExperts) {
  Buffer experts(std::vector<int32_t>{0, 9, 4, 1, 2, 3, 9, 8, 7, 5, 0, 6, 3, 1, 4, 2, 0, 9});
  auto results = runRowOps(oneOp("multi_hot", {i32("s:3 b:2 k:3")}, {kLogits}), {experts});
  for (int token = 0; token < kTokens; ++token)
    for (int e = 0; e < kExperts; ++e) {
      const int *chosen = experts.ints() + token * kChosen;
      EXPECT_EQ(results[0][token * kExperts + e], std::find(chosen, chosen + kChosen, e) != chosen + kChosen)
          << token << " " << e;
    }
}

TEST(RouterLoss, Probabilities) {
  for (std::string score : {"softmax", "sigmoid", "sqrtsoftplus"}) {
    Buffer logits = someLogits();
    auto results = runRowOps(oneOp("router_probabilities", {kLogits}, {kLogits}, attributesOf(score)), {logits});
    Row expected;
    for (int token = 0; token < kTokens; ++token)
      for (double x : probabilities(score, rowOf(logits, token)))
        expected.push_back(x);
    expectClose(results[0], expected, 2e-6, score);
  }
}

TEST(RouterLoss, GradientOfProbabilities) {
  for (std::string score : {"softmax", "sigmoid", "sqrtsoftplus"}) {
    Buffer logits = someLogits(), dresult(randomFloats(kTokens * kExperts, 2));
    auto results = runRowOps(oneOp("router_probabilities_grad", {kLogits, kLogits}, {kLogits}, attributesOf(score)),
                             {logits, dresult});
    const auto weighted = [&](const Row &row, int token) {
      const Row all = probabilities(score, row), d = rowOf(dresult, token);
      return std::inner_product(all.begin(), all.end(), d.begin(), 0.0);
    };
    expectClose(results[0], slopes(logits, weighted), 3e-6, score);
  }
}

// Far out, where all scores round to 0: no NaN.
TEST(RouterLoss, ProbabilitiesOfNothing) {
  Buffer logits(kTokens * kExperts, -200.0f), ones(kTokens * kExperts, 1.0f);
  for (std::string score : {"softmax", "sigmoid", "sqrtsoftplus"}) {
    auto p = runRowOps(oneOp("router_probabilities", {kLogits}, {kLogits}, attributesOf(score)), {logits});
    auto dp = runRowOps(oneOp("router_probabilities_grad", {kLogits, kLogits}, {kLogits}, attributesOf(score)),
                        {logits, ones});
    for (size_t i = 0; i < logits.size(); ++i)
      EXPECT_TRUE(std::isfinite(p[0][i]) && std::isfinite(dp[0][i])) << score;
  }
}

TEST(RouterLoss, RouterZ) {
  Buffer logits = someLogits(), dresult(randomFloats(kTokens, 2));
  auto results = runRowOps(oneOp("router_z", {kLogits}, {kToken}), {logits});
  Row expected;
  for (int token = 0; token < kTokens; ++token)
    expected.push_back(squaredLogSumExp(rowOf(logits, token)));
  expectClose(results[0], expected, 2e-6 * 50);
  auto gradient = runRowOps(oneOp("router_z_grad", {kLogits, kToken}, {kLogits}), {logits, dresult});
  const auto weighted = [&](const Row &row, int token) { return squaredLogSumExp(row) * dresult[token]; };
  expectClose(gradient[0], slopes(logits, weighted), 1e-5);
}

TEST(RouterLoss, BroadcastRepeatsAlongWhatIsMissing) {
  Buffer rows(randomFloats(2 * kExperts, 3));
  auto results = runRowOps(oneOp("broadcast", {f32("b:2 e:10")}, {kLogits}), {rows});
  for (int i = 0; i < kTokens * kExperts; ++i)
    EXPECT_EQ(results[0][i], rows[i % (2 * kExperts)]);
  Buffer one(1, 2.5f);
  auto all = runRowOps(oneOp("broadcast", {f32("")}, {kToken}), {one});
  for (int i = 0; i < kTokens; ++i)
    EXPECT_EQ(all[0][i], 2.5f);
}

TEST(RouterLoss, LossTermIsScaled) {
  Buffer sum(1, 3.0f), tokens(1, 100.0f);
  auto results = runRowOps(oneOp("loss_term", {f32(""), f32("")}, {f32("")}, "{scale = 0.25 : f64}"), {sum, tokens});
  EXPECT_EQ(results[0][0], 0.75f);
}

} // namespace
} // namespace mgc::test
