// The numbers of `mgc explain` on the plan made by hand, worked out on paper.
#include "plan/cost/PlanFacts.h"

#include "test/plan/SmallPlan.h"
#include <gtest/gtest.h>

using namespace mgc;
using namespace mgc::cost;

namespace {

const PlanFacts &smallFacts() {
  static const PlanFacts facts = factsOf(plan::makeSmallPlan());
  return facts;
}

const Traffic &traffic(int64_t stage, const std::string &operation, const std::string &over) {
  static const Traffic none;
  for (const Traffic &one : smallFacts().stages[stage].traffic)
    if (one.operation == operation && one.over == over)
      return one;
  return none;
}

// 7 x 4 tied once, 4 x 2 x 2 twice, 4: padding does not count.
TEST(PlanFacts, ParametersOfTheModel) { EXPECT_EQ(smallFacts().parameters.all, 28 + 16 + 16 + 4); }

TEST(PlanFacts, ParametersThatATokenMeets) {
  plan::Plan plan = plan::makeSmallPlan();
  plan.parameters[1].activeShare = 0.25;
  EXPECT_EQ(parametersOf(plan).all, 28 + 16 + 16 + 4);
  EXPECT_EQ(parametersOf(plan).active, 28 + 4 + 16 + 4);
}

// On a rank padding counts and tensor ranks share: 8 x 4 / 2 + 8 + 8, and 16 + 4.
TEST(PlanFacts, ParametersOfARank) {
  EXPECT_EQ(smallFacts().stages[0].parameters, 32);
  EXPECT_EQ(smallFacts().stages[1].parameters, 20);
}

// Gemm 2 * 4 * 8 * 2, row kernel 32, attention 4 and 10 times half of 4 * 4 * 2, grouped products 2 * 4 * 4 * 2; twice, on 4
// ranks of 2 stages.
TEST(PlanFacts, Work) {
  constexpr double program = 128 + 32 + 64 + 160 + 64 + 64;
  EXPECT_EQ(smallFacts().stages[1].flops, 2 * program);
  EXPECT_EQ(smallFacts().flops, 2 * 2 * 4 * program);
}

TEST(PlanFacts, TrafficOfRings) {
  EXPECT_EQ(traffic(0, "all_reduce", "tp").bytes, 2 * 64); // 2 B (n - 1) / n with B = 64, n = 2
  EXPECT_EQ(traffic(0, "all_reduce", "tp").ranks, 2);
  EXPECT_EQ(traffic(0, "all_gather", "tp").bytes, 2 * 64);
  EXPECT_EQ(traffic(0, "reduce_scatter", "tp").bytes, 2 * 64);
  EXPECT_EQ(traffic(0, "all_to_all", "tp").bytes, 2 * 128);
  EXPECT_EQ(traffic(0, "all_to_all", "tp").count, 2);
}

TEST(PlanFacts, TrafficBetweenStages) {
  EXPECT_EQ(traffic(0, "send", "stage 1").bytes, 2 * 64);
  EXPECT_EQ(traffic(1, "all_reduce", "stages 0, 1").bytes, 128);
  EXPECT_EQ(traffic(1, "all_reduce", "stages 0, 1").count, 1);
}

TEST(PlanFacts, Memory) {
  const StageFacts &stage = smallFacts().stages[0];
  int64_t sum = 0;
  for (const auto &[kind, bytes] : stage.memory)
    sum += bytes;
  EXPECT_EQ(sum, stage.bytes);
  EXPECT_EQ(stage.memory.front(), (std::pair<std::string, int64_t>("parameters", 256)));
}

TEST(PlanFacts, Picture) { EXPECT_EQ(smallFacts().picture, "stage 0 |F0 F1\nstage 1 |   F0 F1\n"); }

} // namespace
