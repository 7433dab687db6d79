// Plans beside the memory of machines.
#include "plan/cost/Fit.h"
#include "plan/cost/Machine.h"
#include "test/plan/SmallPlan.h"

#include <gtest/gtest.h>

namespace mgc::cost {
namespace {

constexpr int64_t kGib = int64_t(1) << 30;

// Two stages of 3 and 2 GiB, of which the second has 5 GiB of the host; compiled for a machine of so many.
plan::Plan planFor(int64_t device, int64_t host) {
  plan::Plan plan = plan::makeSmallPlan();
  plan.stages[0].bytes = 3 * kGib, plan.stages[0].hostBytes = 0;
  plan.stages[1].bytes = 2 * kGib, plan.stages[1].hostBytes = 5 * kGib;
  plan.fit = {"small",
              device,
              host,
              {{"--tp 2", 2 * plan.mesh.worldSize(), kGib, 0.5}, {"--zero 1", plan.mesh.worldSize(), kGib, 2}}};
  return plan;
}

TEST(Fit, TheLargestRankCounts) {
  EXPECT_EQ(
      describe(*fitOf(planFor(4 * kGib, 8 * kGib))),
      "fits small: a rank needs 3.00 GiB of 4.00 GiB, 1.00 GiB to spare; of the host 5.00 GiB of 8.00 GiB, 3.00 GiB "
      "to spare");
  EXPECT_EQ(
      describe(*fitOf(planFor(2 * kGib, 8 * kGib))),
      "does not fit small: a rank needs 3.00 GiB of 2.00 GiB, 1.00 GiB missing; of the host 5.00 GiB of 8.00 GiB, "
      "3.00 GiB to spare");
  EXPECT_FALSE(fitOf(planFor(4 * kGib, 4 * kGib))->fits());
  EXPECT_TRUE(fitOf(planFor(3 * kGib, 5 * kGib))->fits());
  EXPECT_FALSE(fitOf(plan::makeSmallPlan()));
}

TEST(Fit, ChangesAreOfThePlansMachine) {
  const plan::Plan plan = planFor(2 * kGib, 8 * kGib);
  EXPECT_EQ(
      changesText(plan, *fitOf(plan)),
      fmt::format("these would fit small, tried and proved, the fastest first:\n  --tp 2: 1.00 GiB a rank, 500.00 ms a "
                  "step, on {} ranks\n  --zero 1: 1.00 GiB a rank, 2.00 s a step\n",
                  2 * plan.mesh.worldSize()));
  EXPECT_EQ(changesText(plan, fitOf(plan, machineForTarget("cuda:sm_90"))), "");
  const plan::Plan large = planFor(4 * kGib, 8 * kGib);
  EXPECT_EQ(changesText(large, *fitOf(large)), "") << "it fits";
}

} // namespace
} // namespace mgc::cost
