// The memory that a rank needs in addition to its plan's.
#include "runtime/train/RunMemory.h"
#include "runtime/checkpoint/StateFiles.h"
#include "test/runtime/exec/Bundle.h"

#include <algorithm>

namespace mgc::test {
namespace {

std::vector<int64_t> extraOf(const TrainingOptions &options, const plan::Plan &plan, const plan::Plan *evaluation) {
  std::vector<int64_t> bytes;
  for (const LocalRank &rank : ranksOfRun(options, plan, evaluation, nullptr))
    bytes.push_back(rank.extra);
  return bytes;
}

TEST(RunMemory, countsTheCopyOfTheStateAndThePlanThatEvaluates) {
  const plan::Plan plan = Bundle().pipeline().plan;
  const int64_t ranks = plan.mesh.worldSize();
  plan::Plan evaluation = plan;
  for (plan::StagePlan &stage : evaluation.stages)
    stage.bytes = 1000;
  std::vector<int64_t> copies(ranks), both(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    copies[rank] = stateBytes(plan, rank);
    both[rank] = copies[rank] + 1000;
  }
  EXPECT_GT(std::ranges::max(copies), 0);
  const std::vector<int64_t> none(ranks, 0);
  TrainingOptions options;
  options.trainIters = 4, options.save = "out", options.saveInterval = 2;
  EXPECT_EQ(extraOf(options, plan, nullptr), none) << "nothing is copied";
  options.asyncSave = true;
  EXPECT_EQ(extraOf(options, plan, nullptr), copies);
  EXPECT_EQ(extraOf(options, plan, &evaluation), both);
  options.savesWeightsAlone = true;
  EXPECT_EQ(extraOf(options, plan, nullptr), none) << "weights alone";
  options.savesWeightsAlone = false, options.saveInterval = 4;
  EXPECT_EQ(extraOf(options, plan, nullptr), none) << "the only save is the last, which is not copied";
}

} // namespace
} // namespace mgc::test
