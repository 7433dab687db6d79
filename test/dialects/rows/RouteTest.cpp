// Routers of a mixture of experts: choice and weights against plain loops, gradients against difference quotients.
#include "OpKernel.h"
#include "RouteReference.h"

#include <cstring>
#include <gtest/gtest.h>
#include <set>

namespace mgc::test {
namespace {

constexpr int kTokens = 6;
std::string logitsOf(const Router &router) { return f32("s:3 b:2 e:" + std::to_string(router.experts)); }
std::string biasOf(const Router &router) { return f32("e:" + std::to_string(router.experts)); }
std::string chosenDims(const Router &router) { return "s:3 b:2 k:" + std::to_string(router.chosen); }

// weights, experts.
std::vector<Buffer> route(const Router &router, Buffer &logits, Buffer &bias) {
  std::vector<std::string> operands = {logitsOf(router)};
  std::vector<Buffer> buffers = {logits};
  if (router.biased)
    operands.push_back(biasOf(router)), buffers.push_back(bias);
  return runRowOps(
      oneOp("route", operands, {f32(chosenDims(router)), i32(chosenDims(router))}, router.attributes(true)), buffers);
}

Row rowOf(Buffer &buffer, int token, int size) {
  return {buffer.floats() + token * size, buffer.floats() + (token + 1) * size};
}

// Multiples of 1/4: logits are often equal. Biases repeat, too, so that whole choice scores are.
struct Tokens {
  Buffer logits, bias;
  explicit Tokens(const Router &router) : logits(router.experts * kTokens), bias(router.experts) {
    std::vector<int32_t> quarters = randomInts(logits.size(), 1, -20, 20);
    for (size_t i = 0; i < logits.size(); ++i)
      logits[i] = float(quarters[i]) / 4;
    for (int e = 0; e < router.experts; ++e)
      bias[e] = float(e % 5) * 0.093f - 0.2f;
  }
  Row row(int token) { return rowOf(logits, token, int(bias.size())); }
};

void expectRouted(const Router &router, Tokens &tokens, std::vector<Buffer> &results, double tolerance = 2e-6) {
  Row weights;
  std::vector<int> experts;
  const Row bias = rowOf(tokens.bias, 0, router.experts);
  for (int token = 0; token < kTokens; ++token) {
    std::vector<int> chosen = router.choose(tokens.row(token), bias);
    Row own = router.weights(tokens.row(token), chosen);
    weights.insert(weights.end(), own.begin(), own.end());
    experts.insert(experts.end(), chosen.begin(), chosen.end());
  }
  for (size_t i = 0; i < experts.size(); ++i)
    ASSERT_EQ(results[1].ints()[i], experts[i]) << router.name << " at " << i;
  expectClose(results[0], weights, tolerance, router.name);
}

TEST(Route, AllFamilies) {
  for (const Router &router : kRouters) {
    Tokens tokens(router);
    std::vector<Buffer> results = route(router, tokens.logits, tokens.bias);
    ASSERT_EQ(results.size(), 2u) << router.name;
    expectRouted(router, tokens, results);
  }
}

TEST(Route, TiesGoToTheLowestExpert) {
  for (bool biased : {false, true}) {
    Router router{.name = "ties", .experts = 40, .chosen = 4, .score = "sigmoid", .biased = biased};
    Buffer logits(router.experts * kTokens, 0.5f), bias(router.experts, 0.25f);
    for (int token = 0; token < kTokens; ++token)
      logits[token * router.experts + 17] = logits[token * router.experts + 35] = 2;
    std::vector<Buffer> results = route(router, logits, bias);
    const int expected[] = {17, 35, 0, 1};
    for (int i = 0; i < kTokens * router.chosen; ++i)
      ASSERT_EQ(results[1].ints()[i], expected[i % router.chosen]) << i;
  }
}

// Scores of 1 that are rounded are no tie: the logits tell which is larger.
TEST(Route, SaturatedScoresKeepTheirOrder) {
  Router router{.name = "saturated", .experts = 8, .chosen = 3, .score = "sigmoid"};
  Buffer logits(router.experts * kTokens), bias(router.experts);
  for (int i = 0; i < router.experts * kTokens; ++i)
    logits[i] = 30 + float(i % router.experts);
  std::vector<Buffer> results = route(router, logits, bias);
  for (int i = 0; i < kTokens * router.chosen; ++i)
    ASSERT_EQ(results[1].ints()[i], 7 - i % router.chosen);
}

TEST(Route, LogitsOfBf16) {
  const Router &router = kRouters[7];
  Tokens tokens(router);
  std::vector<float> values(tokens.logits.floats(), tokens.logits.floats() + tokens.logits.size());
  std::vector<uint16_t> halves = rowgen::test::toBf16(values);
  for (size_t i = 0; i < values.size(); ++i)
    tokens.logits[i] = rowgen::test::fromBf16(halves[i]);
  const std::string dims = chosenDims(router);
  std::vector<Buffer> results =
      runRowOps(oneOp("route", {bf16("s:3 b:2 e:" + std::to_string(router.experts)), biasOf(router)},
                      {f32(dims), i32(dims)}, router.attributes(true)),
                {Buffer(halves), tokens.bias});
  expectRouted(router, tokens, results);
}

// One kernel adds a bias to what it routes: gpt_oss.
TEST(Route, LogitsThatTheKernelMakes) {
  const Router &router = kRouters[4];
  Tokens tokens(router);
  const std::string x = logitsOf(router), b = biasOf(router), w = f32(chosenDims(router)), i = i32(chosenDims(router));
  std::vector<Buffer> results =
      runRowOps("func.func @f(%x: " + x + ", %b: " + b + ") -> (" + w + ", " + i + ") {\n%l = mg.add %x, %b : (" + x +
                    ", " + b + ") -> " + x + "\n%w, %i = mg.route %l " + router.attributes(true) + " : (" + x +
                    ") -> (" + w + ", " + i + ")\nreturn %w, %i : " + w + ", " + i + "\n}",
                {tokens.logits, tokens.bias});
  for (size_t at = 0; at < tokens.logits.size(); ++at)
    tokens.logits[at] += tokens.bias[at % router.experts];
  expectRouted(router, tokens, results);
}

void expectDistinctExperts(const Router &router, Buffer &experts) {
  for (int token = 0; token < kTokens; ++token) {
    std::set<int> seen;
    for (int j = 0; j < router.chosen; ++j) {
      const int expert = experts.ints()[token * router.chosen + j];
      ASSERT_TRUE(expert >= 0 && expert < router.experts && seen.insert(expert).second)
          << router.name << ": expert " << expert << " of token " << token;
    }
  }
}

// Whatever the bits of the logits are: a dispatch takes the numbers for addresses.
TEST(Route, AnyBitsGiveDistinctExperts) {
  for (const Router &router : kRouters)
    for (bool special : {false, true}) {
      Tokens tokens(router);
      std::vector<int32_t> bits = randomInts(tokens.logits.size(), 5, INT32_MIN, INT32_MAX);
      const float specials[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f};
      std::memcpy(tokens.logits.floats(), bits.data(), bits.size() * 4);
      for (size_t i = 0; special && i < tokens.logits.size(); ++i)
        tokens.logits[i] = specials[uint32_t(bits[i]) % 6];
      std::vector<Buffer> results = route(router, tokens.logits, tokens.bias);
      expectDistinctExperts(router, results[1]);
    }
}

TEST(Route, NaNIsChosenFirst) {
  for (const Router &router : kRouters) {
    Tokens tokens(router);
    for (int token = 0; token < kTokens; ++token)
      tokens.logits[token * router.experts + router.experts * token / kTokens] = token % 2 ? NAN : -NAN;
    std::vector<Buffer> results = route(router, tokens.logits, tokens.bias);
    expectDistinctExperts(router, results[1]);
    const bool all = router.score == "softmax" || router.post == "softmax" || router.epsilon || router.least;
    for (int i = 0; i < kTokens * router.chosen; ++i) {
      const int token = i / router.chosen;
      // Softmax makes every score NaN: where scores are compared, the lowest expert is first.
      const bool comparesScores = router.biased || router.groupTop > 1;
      if (i % router.chosen == 0 && !(router.score == "softmax" && comparesScores))
        EXPECT_EQ(results[1].ints()[i], router.experts * token / kTokens) << router.name;
      if (i % router.chosen == 0 || all)
        EXPECT_TRUE(std::isnan(results[0][i])) << router.name << " at " << i;
    }
  }
}

// --- the gradient

Row gradientOf(const Router &router, const Row &logits, const std::vector<int> &experts, const Row &dweights) {
  Row result;
  for (int e = 0; e < router.experts; ++e)
    result.push_back(slope(
        [&](double x) {
          Row moved = logits;
          moved[e] = x;
          Row weights = router.weights(moved, experts);
          return std::inner_product(weights.begin(), weights.end(), dweights.begin(), 0.0);
        },
        logits[e], 1e-4));
  return result;
}

// Gradient of the bias over all tokens, whose experts it chooses.
Row gradientOf(const Router &router, Tokens &tokens, Buffer &dweights, Buffer &experts) {
  const Row bias = rowOf(tokens.bias, 0, router.experts);
  Row result;
  for (int token = 0; token < kTokens; ++token) {
    std::vector<int> chosen = router.choose(tokens.row(token), bias);
    std::copy(chosen.begin(), chosen.end(), experts.ints() + token * router.chosen);
    Row own = gradientOf(router, tokens.row(token), chosen, rowOf(dweights, token, router.chosen));
    result.insert(result.end(), own.begin(), own.end());
  }
  return result;
}

void expectGradient(const Router &router) {
  Tokens tokens(router);
  Buffer dweights(randomFloats(kTokens * router.chosen, 2)), experts(size_t(kTokens * router.chosen));
  const Row expected = gradientOf(router, tokens, dweights, experts);
  const std::string dims = chosenDims(router), x = logitsOf(router);
  auto results = runRowOps(oneOp("route_grad", {x, i32(dims), f32(dims)}, {x}, router.attributes(false)),
                           {tokens.logits, experts, dweights});
  expectClose(results[0], expected, 3e-6 * std::max(1.0, std::abs(router.scale)),
              router.name + router.attributes(false));
}

TEST(RouteGrad, AllFamilies) {
  for (const Router &router : kRouters)
    expectGradient(router);
}

TEST(RouteGrad, AllForms) {
  for (std::string score : {"softmax", "sigmoid", "sqrtsoftplus", "none"})
    for (std::string post : {"gather", "softmax", "sigmoid"})
      for (int divisor = 0; divisor < 4; ++divisor) {
        Router router{.name = "form", .experts = 20, .chosen = 3, .score = score, .post = post, .scale = 1.25};
        if (divisor == 1)
          router.epsilon = 0.5;
        if (divisor > 1) // the sum counts, or never does
          router.least = divisor == 2 ? 1e-3 : 100;
        expectGradient(router);
      }
}

// Both ops in one kernel: the gradient reads the experts that its own kernel chooses, not their memory.
TEST(RouteGrad, WithItsRouteInOneKernel) {
  const Router &router = kRouters[7];
  Tokens tokens(router);
  Buffer dweights(randomFloats(kTokens * router.chosen, 2)), experts(size_t(kTokens * router.chosen));
  const std::string x = logitsOf(router), b = biasOf(router), w = f32(chosenDims(router)), i = i32(chosenDims(router));
  std::vector<Buffer> results =
      runRowOps("func.func @f(%x: " + x + ", %b: " + b + ", %d: " + w + ") -> (" + i + ", " + x +
                    ") {\n%w, %i = mg.route %x, %b " + router.attributes(true) + " : (" + x + ", " + b + ") -> (" + w +
                    ", " + i + ")\n%g = mg.route_grad %x, %i, %d " + router.attributes(false) + " : (" + x + ", " + i +
                    ", " + w + ") -> " + x + "\nreturn %i, %g : " + i + ", " + x + "\n}",
                {tokens.logits, tokens.bias, dweights});
  expectClose(results[1], gradientOf(router, tokens, dweights, experts), 1e-5);
}

// Far out in both tails, where sums of exponentials round to 1: no slope is NaN, and each is that of the exact function.
TEST(RouteGrad, Tails) {
  for (std::string score : {"sigmoid", "sqrtsoftplus"}) {
    const std::vector<float> logits = {-200, -60, -20, -12, 0, 12, 20, 60};
    Buffer x(logits), experts(std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}), dweights(8, 1);
    const std::string e = f32("s:1 e:8"), k = "s:1 k:8";
    auto dx =
        runRowOps(oneOp("route_grad", {e, i32(k), f32(k)}, {e}, "{score = \"" + score + "\"}"), {x, experts, dweights});
    for (int i = 0; i < 8; ++i) {
      const double z = logits[i], sigmoid = 1 / (1 + std::exp(-z)), rest = 1 / (1 + std::exp(z));
      const double softplus = std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
      const double exact = score == "sigmoid" ? sigmoid * rest : sigmoid / (2 * std::sqrt(softplus));
      EXPECT_NEAR(dx[0][i], exact, 3e-6 * exact + 1e-37) << score << " at " << z;
    }
  }
}

} // namespace
} // namespace mgc::test
