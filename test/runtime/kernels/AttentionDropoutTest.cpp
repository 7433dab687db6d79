// Dropout inside attention: its mask is a function of global coordinates, the same forward and backward.
#include "test/runtime/kernels/AttentionReference.h"

#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::test;

static plan::Attention dropped(int64_t b, int64_t g, int64_t r, double p) {
  return {.s = 70, .t = 70, .b = b, .g = g, .r = r, .d = 16, .dropout = p, .site = 12345, .groupStride = r};
}

// With equal scores and d = t, v = identity, o[t] shows the mask: kept / (1 - p) / t. With do = e_0 v^T alike, dv does.
TEST(AttentionDropout, keptFractionAndForwardEqualsBackward) {
  const double p = 0.3;
  const int64_t n = 256;
  AttentionProblem problem({.s = n, .t = n, .b = 1, .g = 1, .r = 1, .d = n, .dropout = p, .groupStride = 1});
  std::fill(problem.q.begin(), problem.q.end(), 0.0f);
  for (int32_t &position : problem.queryPositions)
    position += static_cast<int32_t>(n); // every key is visible
  for (int64_t i = 0; i < n * n; ++i)
    problem.v[i] = problem.outputGradient[i] = i / n == i % n ? 1 : 0;
  problem.run(1);
  int64_t kept = 0;
  for (int64_t s = 0; s < n; ++s) {
    for (int64_t t = 0; t < n; ++t) {
      const float forward = problem.o[s * n + t], backward = problem.dv[t * n + s];
      ASSERT_EQ(forward == 0, backward == 0);
      kept += forward != 0;
      if (forward != 0) {
        ASSERT_NEAR(forward * n, 1 / (1 - p), 1e-4);
      }
    }
  }
  EXPECT_NEAR(static_cast<double>(kept) / (n * n), 1 - p, 0.01); // standard error: 0.002
}

TEST(AttentionDropout, everythingDropped) {
  AttentionProblem problem(dropped(1, 1, 1, 1.0));
  problem.run(1);
  for (const auto *values : {&problem.o, &problem.dq, &problem.dk, &problem.dv})
    for (float value : *values)
      EXPECT_EQ(value, 0);
}

TEST(AttentionDropout, drawsFollowSeedSiteAndInstance) {
  AttentionProblem base(dropped(1, 1, 1, 0.5));
  base.run(1);
  AttentionProblem seed = base, site = base, instance = base;
  seed.a.seed.value = 1, site.a.site = 1, instance.a.instance.value = 1;
  for (AttentionProblem *other : {&seed, &site, &instance}) {
    other->run(1);
    EXPECT_NE(base.o, other->o);
  }
}

// The part [b0, b0 + part.b) x groups [g0, ..) x members [r0, ..) of a problem, as the rank that holds it computes it.
static void expectPartEqual(AttentionProblem &whole, int64_t b0, int64_t bs, int64_t g0, int64_t gs, int64_t r0,
                            int64_t rs) {
  const plan::Attention &w = whole.a;
  plan::Attention sizes = w;
  sizes.b = bs, sizes.g = gs, sizes.r = rs;
  AttentionProblem part(sizes);
  part.a.scale = w.scale;
  part.a.headOffset.value += g0 * w.groupStride + r0;
  for (int64_t b = 0; b < bs; ++b)
    part.samples[b] = whole.samples[b0 + b];
  const auto wholeRow = [&](int64_t s, int64_t b, int64_t g, int64_t r) {
    return ((s * w.b + b0 + b) * w.g + g0 + g) * w.r + r0 + r;
  };
  const auto eachRow = [&](auto body) {
    int64_t row = 0;
    for (int64_t s = 0; s < w.s; ++s)
      for (int64_t b = 0; b < bs; ++b)
        for (int64_t g = 0; g < gs; ++g)
          for (int64_t r = 0; r < rs; ++r)
            body(row++ * w.d, wholeRow(s, b, g, r) * w.d);
  };
  eachRow([&](int64_t to, int64_t from) { std::copy_n(&whole.q[from], w.d, &part.q[to]); });
  eachRow([&](int64_t to, int64_t from) { std::copy_n(&whole.outputGradient[from], w.d, &part.outputGradient[to]); });
  for (int64_t t = 0; t < w.t; ++t)
    for (int64_t b = 0; b < bs; ++b)
      for (int64_t g = 0; g < gs; ++g) {
        const int64_t to = ((t * bs + b) * gs + g) * w.d, from = ((t * w.b + b0 + b) * w.g + g0 + g) * w.d;
        std::copy_n(&whole.k[from], w.d, &part.k[to]);
        std::copy_n(&whole.v[from], w.d, &part.v[to]);
      }
  part.run(1);
  eachRow([&](int64_t here, int64_t there) {
    for (int64_t d = 0; d < w.d; ++d) {
      ASSERT_NEAR(part.o[here + d], whole.o[there + d], 1e-5);
      ASSERT_NEAR(part.dq[here + d], whole.dq[there + d], 1e-5);
    }
  });
}

TEST(AttentionDropout, doesNotDependOnTheSplit) {
  AttentionProblem whole(dropped(2, 4, 4, 0.5));
  whole.resolve(/*seed=*/77, /*instance=*/2, /*headOffset=*/0);
  whole.run(1);
  expectPartEqual(whole, 0, 2, 0, 4, 0, 4);
  expectPartEqual(whole, 1, 1, 0, 4, 0, 4); // batch
  expectPartEqual(whole, 0, 2, 2, 2, 0, 4); // groups
  expectPartEqual(whole, 1, 1, 3, 1, 2, 2); // batch, groups and members: groupStride stays 4
}
