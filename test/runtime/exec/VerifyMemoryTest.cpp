#include "runtime/exec/VerifyMemory.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/exec/HandMadePlans.h"

using namespace mgc;
using namespace mgc::test;

namespace {

using Of = MemoryLimit::Of;
constexpr int64_t kGib = 1 << 30;

// Ranks of two stages, which need 3 and 2 GiB.
plan::Plan planOfStages() {
  plan::Plan plan = emptyPlan({{"pp", 2, plan::AxisRole::stage}, {"dp", 2, plan::AxisRole::data}});
  plan.stages[0].bytes = 3 * kGib;
  plan.stages[1].bytes = 2 * kGib;
  return plan;
}

std::vector<LocalRank> ranks(int64_t count) {
  std::vector<LocalRank> here;
  for (int64_t rank = 0; rank < count; ++rank)
    here.push_back({rank, rank == 0, rank < 2 ? "/job/0" : "/job/1"});
  return here;
}

Status verify(const std::vector<LocalRank> &here, const MemoryLimit &limit) {
  return verifyMemory(planOfStages(), here, 1, {&limit, 1});
}

} // namespace

TEST(VerifyMemory, allRanksOfTheMachineCount) {
  EXPECT_TRUE(isOk(verify(ranks(4), {Of::machine, "", "MemAvailable", 10 * kGib})));
  EXPECT_TRUE(
      fails(verify(ranks(4), {Of::machine, "", "MemAvailable", 10 * kGib - 1}),
            {"4 of the plan's ranks here need 10737418240 bytes (10.00 GiB)", "(MemAvailable)", "nothing was allocated",
             "need 1 bytes (0.00 GiB) less", "2 machines like this one with at most 3 of the ranks each"}));
  EXPECT_TRUE(isOk(verify(ranks(1), {Of::machine, "", "MemAvailable", 3 * kGib})));
  EXPECT_TRUE(fails(verify(ranks(1), {Of::machine, "", "MemAvailable", kGib}),
                    {"1 of the plan's ranks here need", "3.0 times less"}));
}

TEST(VerifyMemory, ranksOfAGroupCountForItsLimit) {
  EXPECT_TRUE(isOk(verify(ranks(4), {Of::group, "/job/1", "memory.max", 4 * kGib})));
  EXPECT_TRUE(fails(verify(ranks(4), {Of::group, "/job/1", "memory.max", 3 * kGib}),
                    {"2 of the plan's ranks here need", "a limit that is 1073741824 bytes (1.00 GiB) higher"}));
  EXPECT_TRUE(fails(verify(ranks(4), {Of::group, "/job", "memory.max", 9 * kGib}), {"4 of the plan's ranks"}));
}

TEST(VerifyMemory, ofAProcessItsOwnRanksAndThreadsCount) {
  EXPECT_TRUE(isOk(verify(ranks(4), {Of::process, "", "ulimit -v", 4 * kGib})));
  EXPECT_TRUE(fails(verify(ranks(4), {Of::process, "", "ulimit -v", 3 * kGib}),
                    {"1 of the plan's ranks here need", "with 1 threads", "higher"}));
}
