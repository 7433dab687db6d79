// The engine with one rank, where ranks are processes: the bits of the engine that has them all. Threads, each with a communicator
// of its own, stand for the processes.
#include "runtime/comm/thread/ThreadWorld.h"
#include "runtime/train/OptimizerSchedule.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/comm/OnThreads.h"
#include "test/runtime/exec/HandMadePlans.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace mgc::test {
namespace {

constexpr int64_t kSteps = 3;

StepScalars scalarsOf(int64_t step) { return stepScalars({}, 0.5, step); }

// body(engine) on a thread for each rank of the plan.
void runApart(const plan::Plan &plan, EngineOptions options, const std::function<void(int64_t, Engine &)> &body) {
  const int64_t ranks = plan.mesh.worldSize();
  ThreadWorld world(ranks, {options.timeout});
  onThreads(ranks, [&](int64_t rank) {
    EngineOptions own = options;
    own.communicator = &world.communicator(rank);
    const std::unique_ptr<Engine> engine = makeEngine(plan, own);
    body(rank, *engine);
  });
}

TEST(ProcessEngine, givesTheBitsOfTheEngineThatHasAllRanks) {
  for (int64_t dp : {1, 2, 3}) {
    const PipelinePlan pipeline = makePipelinePlan(dp);
    const int64_t ranks = pipeline.plan.mesh.worldSize();
    std::unique_ptr<Engine> together = makeEngine(pipeline.plan);
    setWeights(pipeline, *together);
    std::vector<StepResult> expected;
    for (int64_t step = 0; step < kSteps; ++step)
      expected.push_back(*together->step(step, makeBatch(pipeline.plan, step), scalarsOf(step)));
    runApart(pipeline.plan, {}, [&](int64_t rank, Engine &engine) {
      for (int64_t other = 0; other < ranks; ++other)
        EXPECT_EQ(engine.arenas()[other] != nullptr, other == rank);
      setWeights(pipeline, engine);
      for (int64_t step = 0; step < kSteps; ++step) {
        const Result<StepResult> result = engine.step(step, makeBatch(pipeline.plan, step), scalarsOf(step));
        ASSERT_TRUE(isOk(result));
        EXPECT_EQ(result->loss, expected[step].loss);
        EXPECT_EQ(result->tokens, expected[step].tokens);
        EXPECT_EQ(result->gradientNorm, expected[step].gradientNorm);
      }
      if (rank < dp)
        EXPECT_EQ(std::memcmp(inArena<float>(engine, rank, pipeline.valueOffset),
                              inArena<float>(*together, rank, pipeline.valueOffset),
                              pipeline.plan.sequenceLength * sizeof(float)),
                  0);
    });
  }
}

TEST(ProcessEngine, theGreatestOfAllCounts) {
  runApart(makePipelinePlan(2).plan, {}, [](int64_t rank, Engine &engine) {
    EXPECT_EQ(*engine.greatest(static_cast<int32_t>(rank)), 3);
    EXPECT_EQ(*engine.greatest(rank == 1 ? 7 : 0), 7);
    EXPECT_EQ(*engine.greatest(-5), -5);
  });
}

TEST(ProcessEngine, beforeUpdateIsCalledInEachProcess) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  std::atomic<int> calls{0};
  runApart(pipeline.plan, {}, [&](int64_t, Engine &engine) {
    ASSERT_TRUE(isOk(engine.step(0, makeBatch(pipeline.plan, 0), scalarsOf(0), [&] {
      ++calls;
      return Status::ok();
    })));
  });
  EXPECT_EQ(calls, 4);
}

// One process that refuses is enough: no rank updates.
TEST(ProcessEngine, noRankUpdatesWhereOneRefuses) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  for (const bool refuses : {true, false})
    runApart(pipeline.plan, {}, [&](int64_t rank, Engine &engine) {
      const std::span<float> weights(inArena<float>(engine, rank, pipeline.valueOffset),
                                     rank < 2 ? pipeline.plan.sequenceLength : 0);
      std::ranges::fill(weights, 1.0F);
      const Accepts accepts = [&](const StepResult &) { return !refuses || rank != 3; };
      const Result<StepResult> result = engine.step(0, makeBatch(pipeline.plan, 0), scalarsOf(0), nullptr, accepts);
      ASSERT_TRUE(isOk(result));
      EXPECT_EQ(result->isUpdated, !refuses);
      for (const float weight : weights)
        EXPECT_EQ(weight == 1, refuses);
    });
}

TEST(ProcessEngine, otherDataAreFound) {
  const PipelinePlan pipeline = makePipelinePlan(1);
  runApart(pipeline.plan, {}, [&](int64_t rank, Engine &engine) {
    GlobalBatch batch = makeBatch(pipeline.plan, 0);
    batch.labels[4] += rank == 1;
    EXPECT_TRUE(fails(engine.step(0, batch, scalarsOf(0)), {"rank 1 was given other data than rank 0"}));
  });
}

// Whatever a step reads: masks too.
TEST(ProcessEngine, otherPartsOfTheDataAreFound) {
  const PipelinePlan pipeline = makePipelinePlan(1);
  const int32_t length = static_cast<int32_t>(pipeline.plan.sequenceLength);
  const auto differ = [&](std::vector<int32_t> GlobalBatch::*part, const std::vector<int32_t> &first,
                          const std::vector<int32_t> &second) {
    runApart(pipeline.plan, {}, [&](int64_t rank, Engine &engine) {
      GlobalBatch batch = makeBatch(pipeline.plan, 0);
      (batch.*part).assign(batch.tokens.size(), first.back());
      std::ranges::copy(rank == 1 ? second : first, (batch.*part).begin());
      EXPECT_TRUE(fails(engine.step(0, batch, scalarsOf(0)), {"rank 1 was given other data than rank 0"}));
    });
  };
  std::vector<int32_t> one(length, 0), two = one; // documents of the first sample
  two.back() = length - 1;
  differ(&GlobalBatch::starts, one, two);
  differ(&GlobalBatch::ends, {length, length}, {1, length});
  for (auto part : {&GlobalBatch::types, &GlobalBatch::encoderTokens, &GlobalBatch::encoderEnds,
                    &GlobalBatch::imagePlaces, &GlobalBatch::imageSources})
    differ(part, {7, 8}, {7, 9});
}

TEST(ProcessEngine, anErrorOfOneIsTheCauseForAll) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  const auto inject = [](const ExecutionPlace &place) {
    const bool here = place.rank == 3 && place.microbatch == 1 && place.instruction == "loss/0";
    return here ? Status::error("broken on purpose") : Status::ok();
  };
  runApart(pipeline.plan, {.inject = inject}, [&](int64_t, Engine &engine) {
    EXPECT_TRUE(fails(engine.step(5, makeBatch(pipeline.plan, 5), scalarsOf(5)),
                      {"rank 3 (stage 1), step 5, microbatch 1, forward.0, loss/0: broken on purpose"}));
  });
}

} // namespace
} // namespace mgc::test
