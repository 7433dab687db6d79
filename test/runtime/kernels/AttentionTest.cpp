// Blocked attention, forward and backward, against its definition; equal bits for every thread count.
#include "test/runtime/kernels/AttentionReference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::test;

static std::string describe(const plan::Attention &a) {
  return fmt::format("s={} t={} b={} g={} r={} d={} window={} dropout={}{} softcap={} {} slopes, {} biases", a.s, a.t,
                     a.b, a.g, a.r, a.d, a.window, a.dropout, a.causal ? "" : " bidirectional", a.softcap,
                     a.slopes.size(), a.biasBuckets);
}

static void expectNear(const std::vector<float> &found, const std::vector<double> &expected, const char *name,
                       const plan::Attention &a) {
  ASSERT_EQ(found.size(), expected.size());
  double scale = 1;
  for (double value : expected)
    scale = std::isfinite(value) ? std::max(scale, std::abs(value)) : scale;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isinf(expected[i]))
      ASSERT_EQ(found[i], expected[i]) << name << "[" << i << "] " << describe(a);
    else
      ASSERT_NEAR(found[i], expected[i], 4e-6 * scale) << name << "[" << i << "] " << describe(a);
  }
}

static void check(AttentionProblem problem) {
  problem.run(1);
  const AttentionExpected expected = reference(problem);
  const std::vector<double> *wanted[] = {&expected.o, &expected.lse, &expected.dq, &expected.dk, &expected.dv};
  for (size_t i = 0; const auto &[name, found] : problem.results())
    expectNear(*found, *wanted[i++], name, problem.a);
  for (size_t i = 0; i < expected.dbias.size(); ++i)
    ASSERT_NEAR(problem.dbias[i], expected.dbias[i], 4e-6 * std::max(expected.biasTerms[i], 1.0))
        << "dbias[" << i << "] " << describe(problem.a);
}

static void expectSameBits(const AttentionProblem &one, const AttentionProblem &other) {
  for (size_t i = 0; i < one.results().size(); ++i)
    EXPECT_EQ(*one.results()[i].second, *other.results()[i].second) << one.results()[i].first << " " << describe(one.a);
}

TEST(Attention, causal) {
  for (int64_t d : {1, 8, 16, 64, 80})
    for (int64_t s : {1, 7, 64, 129, 300})
      check(AttentionProblem({.s = s, .t = s, .b = 2, .g = 1, .r = 2, .d = d}));
}

TEST(Attention, sizesOfValues) {
  for (auto [d, w] : {std::pair<int64_t, int64_t>{16, 8}, {8, 24}, {192, 128}, {1, 33}, {40, 16}})
    for (int64_t s : {1, 7, 129})
      check(AttentionProblem({.s = s, .t = s, .b = 2, .g = 2, .r = 2, .d = d, .w = w}));
  check(AttentionProblem({.s = 130, .t = 70, .b = 1, .g = 2, .r = 1, .d = 24, .w = 16, .window = 50, .dropout = 0.3}));
  AttentionProblem named({.s = 60, .t = 60, .b = 2, .g = 1, .r = 2, .d = 16}), same = named;
  named.a.w = 16;
  named.run(2), same.run(2);
  expectSameBits(named, same);
}

TEST(Attention, unequalLengths) {
  for (auto [s, t] : {std::pair<int64_t, int64_t>{1, 300}, {5, 129}, {130, 7}, {64, 128}, {40, 300}})
    check(AttentionProblem({.s = s, .t = t, .b = 1, .g = 2, .r = 1, .d = 16}));
}

TEST(Attention, groupedQueries) {
  for (int64_t r : {1, 3, 4, 70})
    check(AttentionProblem({.s = 67, .t = 67, .b = 2, .g = 3, .r = r, .d = 8}));
}

TEST(Attention, window) {
  for (int64_t window : {1, 2, 50, 128, 1000})
    check(AttentionProblem({.s = 300, .t = 300, .b = 1, .g = 1, .r = 2, .d = 8, .window = window}));
}

// A score of each head that no key has: also where a query sees no key, or one block of them and then none.
TEST(Attention, sinks) {
  for (int64_t r : {1, 3})
    for (int64_t window : {0, 5, 70}) {
      AttentionProblem problem({.s = 150, .t = 150, .b = 2, .g = 2, .r = r, .d = 16, .window = window});
      problem.a.sinks = true;
      problem.sinks[0] = 30, problem.sinks[1] = -30; // almost all of the probabilities, almost none
      problem.queryPositions[20] = -1;
      check(problem);
    }
  check(AttentionProblem({.s = 140, .t = 140, .b = 1, .g = 2, .r = 2, .d = 8, .dropout = 0.3, .sinks = true}));
}

// Backward reads what o and lse have of them, no more.
TEST(Attention, sinksOfTheLeastScoreGiveNone) {
  AttentionProblem none({.s = 150, .t = 150, .b = 1, .g = 1, .r = 2, .d = 16}), least = none;
  least.a.sinks = true;
  std::fill(least.sinks.begin(), least.sinks.end(), -1e30f);
  none.run(1), least.run(1);
  expectSameBits(none, least);
}

// The mask follows from seed, instance and heads.
TEST(Attention, dropout) {
  for (double p : {0.1, 0.5, 0.9}) {
    AttentionProblem problem({.s = 70, .t = 70, .b = 2, .g = 2, .r = 2, .d = 16, .dropout = p, .site = 12345});
    problem.a.groupStride = 2;
    problem.resolve(9, 3, 8);
    check(problem);
  }
}

TEST(Attention, documents) {
  for (int64_t length : {1, 3, 64, 129, 1000})
    for (int64_t window : {0, 40}) {
      AttentionProblem problem({.s = 300, .t = 300, .b = 2, .g = 1, .r = 2, .d = 8, .window = window});
      problem.pack(length);
      check(problem);
    }
}

TEST(Attention, oneDocumentGivesTheBitsOfNone) {
  AttentionProblem none({.s = 300, .t = 300, .b = 2, .g = 2, .r = 2, .d = 16}), one = none;
  one.pack(1 << 20);
  std::fill(one.starts.begin(), one.starts.end(), 0);
  none.run(1), one.run(1);
  expectSameBits(none, one);
}

// Caps far above the scores, near them, and below almost all of them.
TEST(Attention, softcap) {
  for (double softcap : {1000.0, 3.0, 0.3})
    for (int64_t window : {0, 40}) {
      check(AttentionProblem(
          {.s = 150, .t = 150, .b = 2, .g = 2, .r = 2, .d = 16, .window = window, .softcap = softcap}));
      AttentionProblem narrow({.s = 130, .t = 70, .b = 1, .g = 2, .r = 1, .d = 24, .w = 16, .softcap = softcap});
      narrow.a.window = window, narrow.a.dropout = 0.3;
      check(narrow);
    }
}

// They are no scores of a key.
TEST(Attention, sinksAreNotCapped) {
  AttentionProblem problem({.s = 150, .t = 150, .b = 1, .g = 2, .r = 2, .d = 16, .softcap = 0.5, .sinks = true});
  problem.sinks[0] = 7, problem.queryPositions[20] = -1;
  check(problem);
}

TEST(Attention, aHugeCapIsNone) {
  AttentionProblem none({.s = 90, .t = 90, .b = 1, .g = 1, .r = 2, .d = 16}), huge = none;
  huge.a.softcap = 1e6;
  none.run(1), huge.run(1);
  for (size_t i = 0; i < none.o.size(); ++i)
    ASSERT_NEAR(none.o[i], huge.o[i], 1e-6) << i;
}

TEST(Attention, bidirectional) {
  for (int64_t window : {0, 1, 2, 50, 128, 1000})
    for (int64_t r : {1, 3}) {
      AttentionProblem problem({.s = 300, .t = 300, .b = 1, .g = 2, .r = r, .d = 8, .window = window});
      problem.a.causal = false;
      check(problem);
      problem.a.dropout = 0.3;
      check(problem);
    }
  AttentionProblem shorter({.s = 40, .t = 300, .b = 2, .g = 1, .r = 2, .d = 16, .causal = false});
  check(shorter);
}

// Documents from starts to ends, and padding behind samples, where some queries see no key.
TEST(Attention, ends) {
  for (bool causal : {true, false})
    for (int64_t length : {1, 3, 64, 129, 1000})
      for (int64_t window : {0, 40}) {
        AttentionProblem problem(
            {.s = 300, .t = 300, .b = 2, .g = 1, .r = 2, .d = 8, .window = window, .causal = causal});
        problem.end(length);
        check(problem);
        AttentionProblem packed = problem;
        packed.pack(length);
        packed.end(length);
        check(packed);
      }
}

TEST(Attention, endsThatHideAllKeys) {
  for (bool causal : {true, false})
    for (int32_t end : {0, -7, std::numeric_limits<int32_t>::min()}) {
      AttentionProblem problem({.s = 60, .t = 60, .b = 2, .g = 1, .r = 2, .d = 8, .causal = causal});
      problem.end(60);
      for (int64_t s = 20; s < 60; ++s)
        problem.ends[s * 2] = end;
      problem.run(1);
      for (int64_t i = 30 * 2 * 2 * 8; i < 30 * 2 * 2 * 8 + 16; ++i) {
        EXPECT_EQ(problem.o[i], 0);
        EXPECT_EQ(problem.dq[i], 0);
      }
      EXPECT_EQ(problem.lse[30 * 2 * 2], -std::numeric_limits<float>::infinity());
      problem.a.softcap = 2;
      problem.slope();
      check(problem);
    }
}

TEST(Attention, slopes) {
  for (bool causal : {true, false})
    for (double softcap : {0.0, 2.0})
      for (int64_t window : {0, 40}) {
        AttentionProblem problem(
            {.s = 200, .t = 200, .b = 2, .g = 2, .r = 3, .d = 16, .causal = causal, .softcap = softcap});
        problem.a.window = window, problem.a.groupStride = 4;
        problem.a.headOffset.value = 2;
        problem.slope();
        check(problem);
        problem.a.dropout = 0.3;
        check(problem);
      }
}

// Few and many buckets, with distances beyond the last and without.
TEST(Attention, biases) {
  for (bool causal : {true, false})
    for (auto [buckets, distance] : {std::pair<int64_t, int64_t>{32, 128}, {4, 2}, {7, 20}, {300, 400}})
      for (int64_t r : {1, 3}) {
        AttentionProblem problem({.s = 200, .t = 200, .b = 2, .g = 2, .r = r, .d = 16, .causal = causal});
        problem.addBias(buckets, distance);
        check(problem);
        problem.a.window = 40, problem.a.dropout = 0.3;
        check(problem);
      }
  AttentionProblem shorter({.s = 40, .t = 300, .b = 2, .g = 1, .r = 2, .d = 16, .causal = false});
  shorter.addBias(32, 128);
  check(shorter);
}

// A table of zeros, whose gradients are there all the same.
TEST(Attention, zeroBiasesGiveTheBitsOfNone) {
  AttentionProblem none({.s = 190, .t = 190, .b = 2, .g = 1, .r = 2, .d = 16, .causal = false}), zero = none;
  zero.addBias(32, 128);
  std::fill(zero.bias.begin(), zero.bias.end(), 0.0f);
  none.run(1), zero.run(1);
  expectSameBits(none, zero);
  check(zero);
}

// Everything at once, in an order that is not that of the positions.
TEST(Attention, allFeatures) {
  for (bool causal : {true, false})
    for (bool hasBiases : {false, true}) {
      AttentionProblem problem({.s = 150, .t = 300, .b = 2, .g = hasBiases ? 2 : 1, .r = 2, .d = 16, .window = 60});
      problem.a.causal = causal, problem.a.softcap = 1.5, problem.a.dropout = 0.2, problem.a.sinks = true;
      problem.order(2, 1);
      problem.pack(70), problem.end(70), problem.slope();
      if (hasBiases)
        problem.addBias(16, 50);
      check(problem);
    }
}

// Two halves of the keys, merged as a ring merges them, are all keys, also for queries that see none of one half.
TEST(Attention, halvesOfTheKeysAreSummands) {
  AttentionProblem whole(
      {.s = 90, .t = 90, .b = 1, .g = 1, .r = 2, .d = 8, .window = 30, .causal = false, .softcap = 1.5});
  whole.slope(), whole.end(80);
  whole.run(1);
  std::vector<double> dq(whole.dq.size()), o(whole.o.size());
  for (int64_t first : {0, 45}) {
    AttentionProblem half = whole;
    half.a.t = 45;
    const auto part = [&](auto &values, int64_t size) {
      values = std::decay_t<decltype(values)>(values.begin() + first * size, values.begin() + (first + 45) * size);
    };
    part(half.k, 8), part(half.v, 8), part(half.keyPositions, 1);
    half.dk.resize(half.k.size()), half.dv.resize(half.v.size());
    half.pass(false, 1);
    for (size_t i = 0; i < o.size(); ++i) {
      ASSERT_FALSE(std::isnan(half.o[i])) << i;
      o[i] += std::isinf(half.lse[i / 8]) ? 0 : std::exp(double(half.lse[i / 8]) - whole.lse[i / 8]) * half.o[i];
    }
    half.o = whole.o, half.lse = whole.lse;
    half.pass(true, 1);
    for (size_t i = 0; i < dq.size(); ++i)
      dq[i] += half.dq[i];
    for (int64_t i = 0; i < 45 * 8; ++i)
      ASSERT_NEAR(half.dk[i], whole.dk[first * 8 + i], 1e-5) << i;
  }
  for (size_t i = 0; i < o.size(); ++i) {
    ASSERT_NEAR(o[i], whole.o[i], 1e-5) << i;
    ASSERT_NEAR(dq[i], whole.dq[i], 1e-5) << i;
  }
}

// The gradients of the sum of o times do, against its difference quotients: in double, so that they say what the formulas are.
TEST(Attention, gradientsAreDifferenceQuotients) {
  AttentionProblem problem(
      {.s = 7, .t = 7, .b = 1, .g = 1, .r = 2, .d = 3, .scale = 1.3, .window = 5, .causal = false, .softcap = 0.8});
  problem.slope(), problem.end(6), problem.addBias(8, 4);
  problem.run(1);
  const auto objective = [&] {
    const AttentionExpected expected = reference(problem);
    double sum = 0;
    for (size_t i = 0; i < expected.o.size(); ++i)
      sum += expected.o[i] * problem.outputGradient[i];
    return sum;
  };
  const auto compare = [&](std::vector<float> &values, const std::vector<float> &gradients, const char *name) {
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = values[i], step = 1.0f / 1024;
      values[i] = value + step;
      const double after = objective(), right = values[i];
      values[i] = value - step;
      const double before = objective(), left = values[i];
      values[i] = value;
      ASSERT_NEAR(gradients[i], (after - before) / (right - left), 2e-5) << name << "[" << i << "]";
    }
  };
  compare(problem.q, problem.dq, "q");
  compare(problem.k, problem.dk, "k");
  compare(problem.v, problem.dv, "v");
  compare(problem.bias, problem.dbias, "bias");
}

TEST(Attention, zigzagPositions) {
  for (int64_t window : {0, 40}) {
    AttentionProblem problem({.s = 150, .t = 300, .b = 2, .g = 1, .r = 2, .d = 16, .window = window});
    for (int64_t s = 0; s < 150; ++s) // the first and the last quarter; keys back to front
      problem.queryPositions[s * 2] = problem.queryPositions[s * 2 + 1] = static_cast<int32_t>(s < 75 ? s : s + 150);
    for (int64_t t = 0; t < 300; ++t)
      problem.keyPositions[t * 2 + 1] = static_cast<int32_t>(299 - t);
    check(problem);
    problem.pack(70);
    check(problem);
  }
}

TEST(Attention, permutedPositions) {
  AttentionProblem problem({.s = 129, .t = 200, .b = 2, .g = 2, .r = 1, .d = 16, .window = 60});
  problem.permute();
  check(problem);
}

TEST(Attention, queriesThatSeeNothing) {
  AttentionProblem problem({.s = 130, .t = 140, .b = 2, .g = 1, .r = 2, .d = 8});
  for (int64_t s = 0; s < 130; ++s)
    problem.queryPositions[s * 2] = s % 3 ? -1 : static_cast<int32_t>(s);
  for (int64_t s = 64; s < 130; ++s)
    problem.queryPositions[s * 2 + 1] = -5;
  problem.run(1);
  for (int64_t i = 0; i < 2 * 8; ++i) {
    EXPECT_EQ(problem.o[100 * 2 * 2 * 8 + i], 0);
    EXPECT_EQ(problem.dq[100 * 2 * 2 * 8 + i], 0);
  }
  check(problem);
  problem.a.t = 0;
  problem.keyPositions.clear(), problem.k.clear(), problem.v.clear();
  check(problem);
}

TEST(Attention, extremePositionsDoNotOverflow) {
  for (int64_t window : {int64_t(0), int64_t(1), int64_t(1) << 31, int64_t(1) << 32, int64_t(1) << 62}) {
    AttentionProblem problem({.s = 4, .t = 4, .b = 1, .g = 1, .r = 1, .d = 8, .window = window});
    problem.goToExtremes();
    check(problem);
    problem.a.causal = false;
    check(problem);
    problem.addBias(32, 128);
    check(problem);
  }
}

TEST(Attention, hugeScoresStayFinite) {
  AttentionProblem problem({.s = 70, .t = 70, .b = 1, .g = 1, .r = 1, .d = 8, .scale = 300});
  problem.run(1);
  for (const auto &[name, values] : problem.results())
    for (float value : *values)
      EXPECT_TRUE(std::isfinite(value));
}

TEST(Attention, nanIsNotHidden) {
  AttentionProblem problem({.s = 3, .t = 3, .b = 1, .g = 1, .r = 1, .d = 8});
  problem.q[8] = std::numeric_limits<float>::quiet_NaN();
  problem.run(1);
  EXPECT_TRUE(std::isnan(problem.o[8]));
  EXPECT_FALSE(std::isnan(problem.o[0]));
}

TEST(Attention, sameBitsForEveryThreadCount) {
  for (double dropout : {0.0, 0.25}) {
    AttentionProblem one({.s = 300, .t = 300, .b = 2, .g = 3, .r = 2, .d = 16, .dropout = dropout});
    AttentionProblem four = one, many = one;
    one.run(1), four.run(4), many.run(100);
    expectSameBits(one, four), expectSameBits(one, many);
  }
}

// Where q, k, v and their gradients lie changes no bit, and nothing between them is written.
TEST(Attention, sameBitsInOneBuffer) {
  for (int64_t padding : {0, 5})
    for (const plan::Attention &attention : {plan::Attention{.s = 300, .t = 300, .b = 2, .g = 3, .r = 2, .d = 16},
                                             {.s = 300, .t = 300, .b = 1, .g = 2, .r = 4, .d = 24, .window = 70},
                                             {.s = 70, .t = 200, .b = 2, .g = 1, .r = 3, .d = 33, .dropout = 0.2},
                                             {.s = 130, .t = 7, .b = 2, .g = 2, .r = 1, .d = 8}}) {
      AttentionProblem apart(attention), joined(attention);
      joined.join(padding);
      apart.run(2), joined.run(2);
      expectSameBits(apart, joined);
      const int64_t written = std::ranges::count_if(joined.joinedGradients, [](float x) { return x == x; });
      EXPECT_EQ(written, int64_t(joined.dq.size() + joined.dk.size() + joined.dv.size()));
    }
}

// Each operand has a stride of its own: here only v and dk are parts of something larger.
TEST(Attention, stridesAreApart) {
  const plan::Attention attention = {.s = 60, .t = 60, .b = 2, .g = 2, .r = 2, .d = 8};
  AttentionProblem apart(attention), some(attention);
  some.a.vStride = 11, some.a.dkStride = 20;
  const int64_t groups = 60 * 2 * 2;
  some.v.assign(groups * 11, 0), some.dk.assign(groups * 20, 0);
  for (int64_t i = 0; i < groups * 8; ++i)
    some.v[i / 8 * 11 + i % 8] = apart.v[i];
  apart.run(1);
  some.o = apart.o, some.lse = apart.lse, some.dq.resize(apart.dq.size()), some.dv.resize(apart.dv.size());
  some.pass(false, 1), some.pass(true, 1);
  EXPECT_EQ(apart.o, some.o);
  EXPECT_EQ(apart.dq, some.dq);
  EXPECT_EQ(apart.dv, some.dv);
  for (int64_t i = 0; i < groups * 8; ++i)
    ASSERT_EQ(apart.dk[i], some.dk[i / 8 * 20 + i % 8]) << i;
}

// Each generation of processors has its own code, of which this one may not run all.
class AttentionGeneration : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    for (const AttentionKernels *candidate : attentionKernels())
      if (candidate->name == GetParam())
        kernels = candidate;
    if (!kernels)
      GTEST_SKIP() << "this processor cannot run " << GetParam();
  }
  void checkHere(const plan::Attention &attention) {
    AttentionProblem problem(attention);
    problem.kernels = kernels;
    check(problem);
  }
  const AttentionKernels *kernels = nullptr;
};

INSTANTIATE_TEST_SUITE_P(, AttentionGeneration, testing::Values("baseline", "x86_64_v3", "x86_64_v4"),
                         [](const auto &info) { return info.param; });

TEST_P(AttentionGeneration, causal) {
  for (int64_t d : {1, 8, 31, 33, 64, 80, 96, 130})
    for (int64_t s : {1, 31, 47, 129, 260})
      checkHere({.s = s, .t = s, .b = 1, .g = 2, .r = 1, .d = d});
}

TEST_P(AttentionGeneration, groupedQueriesInAWindow) {
  for (int64_t r : {1, 3, 8})
    for (int64_t window : {0, 20, 100})
      checkHere({.s = 150, .t = 150, .b = 2, .g = 1, .r = r, .d = 24, .window = window});
}

TEST_P(AttentionGeneration, dropoutAndSinks) {
  checkHere({.s = 140, .t = 140, .b = 2, .g = 2, .r = 2, .d = 16, .dropout = 0.3, .site = 5, .groupStride = 2});
  checkHere({.s = 140, .t = 140, .b = 2, .g = 2, .r = 3, .d = 24, .window = 40, .sinks = true});
}

TEST_P(AttentionGeneration, shapesOfScores) {
  for (double softcap : {0.0, 1.5})
    for (bool hasSlopes : {false, true}) {
      AttentionProblem problem(
          {.s = 140, .t = 140, .b = 2, .g = 2, .r = 3, .d = 24, .window = 40, .causal = false, .softcap = softcap});
      if (hasSlopes)
        problem.slope();
      problem.kernels = kernels;
      check(problem);
      problem.addBias(32, 100);
      check(problem);
    }
}

TEST_P(AttentionGeneration, inOneBuffer) {
  AttentionProblem problem({.s = 150, .t = 150, .b = 2, .g = 2, .r = 2, .d = 40, .window = 60});
  problem.kernels = kernels;
  problem.join();
  check(problem);
}

TEST_P(AttentionGeneration, sameBitsForEveryThreadCount) {
  AttentionProblem one({.s = 700, .t = 700, .b = 1, .g = 1, .r = 2, .d = 16});
  one.kernels = kernels;
  AttentionProblem many = one;
  one.run(1), many.run(8);
  expectSameBits(one, many);
}

TEST(Attention, workspaceDoesNotGrowWithTheScores) {
  const plan::Attention small = {.s = 1024, .t = 1024, .b = 4, .g = 12, .r = 1, .d = 64};
  plan::Attention large = small;
  large.s = large.t = 65536;
  EXPECT_LT(attentionWorkspaceBytes(small), 1 << 20);
  EXPECT_LT(attentionWorkspaceBytes(large), attentionWorkspaceBytes(small) + kAttentionLanes * 65536 * 5);
  EXPECT_EQ(attentionWorkspaceBytes(small) % plan::kAlignment, 0);
}

TEST(Attention, workspaceOfImpossibleSizesSaturates) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  for (bool backward : {false, true})
    EXPECT_EQ(attentionWorkspaceBytes(
                  {.backward = backward, .s = most, .t = most, .b = most, .g = most, .r = most, .d = most}),
              most);
  EXPECT_EQ(attentionWorkspaceBytes({}), 0);
}
