// However a rank fails, the step ends on all of them and says where and why.
#include "test/runtime/exec/HandMadePlans.h"

#include <gtest/gtest.h>
#include <thread>

namespace mgc::test {
namespace {

using std::chrono::milliseconds;

std::string failureOf(Engine &engine, const std::function<Status()> &beforeUpdate = nullptr) {
  const Result<StepResult> result = engine.step(5, makeBatch(engine.plan(), 5), StepScalars{}, beforeUpdate);
  EXPECT_FALSE(result.isOk());
  return result.isOk() ? "" : result.status().message();
}

TEST(Failure, anErrorNamesItsPlace) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  const auto inject = [](const ExecutionPlace &place) {
    const bool here = place.rank == 3 && place.microbatch == 1 && place.instruction == "loss/0";
    return here ? Status::error("broken on purpose") : Status::ok();
  };
  std::unique_ptr<Engine> engine = makeEngine(pipeline.plan, {.inject = inject});
  const std::string expected = "rank 3 (stage 1), step 5, microbatch 1, forward.0, loss/0: broken on purpose";
  EXPECT_EQ(failureOf(*engine), expected);
  EXPECT_EQ(failureOf(*engine), expected) << "the engine stays failed";
}

TEST(Failure, everyPlaceOfFailureEndsTheStep) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  for (int64_t rank = 0; rank < 4; ++rank)
    for (const char *chunk : {"begin", "forward.0", "backward.0", "reduce", "update"}) {
      if (rank > 1 && (std::string_view(chunk) == "backward.0" || std::string_view(chunk) == "update"))
        continue; // has none, or nothing in it
      const auto inject = [&](const ExecutionPlace &place) {
        return place.rank == rank && place.chunk == chunk ? Status::error("injected") : Status::ok();
      };
      std::unique_ptr<Engine> engine = makeEngine(pipeline.plan, {.inject = inject});
      const std::string failure = failureOf(*engine);
      EXPECT_EQ(failure.find(fmt::format("rank {} (stage {}), step 5", rank, rank / 2)), 0u) << failure;
      EXPECT_NE(failure.find(": injected"), std::string::npos) << failure;
    }
}

TEST(Failure, aRankThatHangsIsNamedAtTheDeadline) {
  const PipelinePlan pipeline = makePipelinePlan(1);
  const auto inject = [](const ExecutionPlace &place) {
    if (place.rank == 1 && place.chunk == "forward.0" && place.microbatch == 2)
      std::this_thread::sleep_for(milliseconds(1500));
    return Status::ok();
  };
  std::unique_ptr<Engine> engine = makeEngine(pipeline.plan, {.timeout = milliseconds(200), .inject = inject});
  EXPECT_EQ(failureOf(*engine), "rank 0 (stage 0), step 5, microbatch 2, backward.0: waited 0.2 s for rank 1 to send "
                                "value 2 of microbatch 2 (128 bytes)");
}

TEST(Failure, transfersThatDoNotAgreeNameBothEnds) {
  PipelinePlan pipeline = makePipelinePlan(1);
  for (plan::Ring &ring : pipeline.plan.stages[1].rings)
    if (ring.value == 1) // the ring of the activations, which it receives
      ring.value = 77;
  const std::string kernels = testKernels();
  Result<std::unique_ptr<Engine>> engine =
      Engine::create(pipeline.plan, kernels.substr(0, kernels.rfind('/')), {.threadsPerRank = 1});
  ASSERT_TRUE(engine.isOk());
  const std::string failure = failureOf(**engine);
  EXPECT_NE(failure.find("rank 0 sends value 1 of microbatch 0 (128 bytes) where rank 1 receives value 77 of "
                         "microbatch 0 (128 bytes)"),
            std::string::npos)
      << failure;
}

TEST(Failure, abortFromAnotherThreadEndsTheStep) {
  const PipelinePlan pipeline = makePipelinePlan(1);
  std::atomic<bool> reached{false};
  std::atomic<bool> leave{false};
  const auto inject = [&](const ExecutionPlace &place) {
    reached = reached || (place.rank == 1 && place.chunk == "forward.0");
    while (place.rank == 1 && place.chunk == "forward.0" && !leave)
      std::this_thread::sleep_for(milliseconds(1));
    return Status::ok();
  };
  std::unique_ptr<Engine> engine = makeEngine(pipeline.plan, {.inject = inject});
  std::thread killer([&] {
    while (!reached)
      std::this_thread::sleep_for(milliseconds(1));
    engine->abort(Status::error("interrupted"));
    leave = true;
  });
  EXPECT_EQ(failureOf(*engine), "interrupted");
  killer.join();
}

TEST(Failure, anErrorOfBeforeUpdateStopsTheUpdate) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  std::unique_ptr<Engine> engine = makeEngine(pipeline.plan);
  for (int64_t rank : {0, 1})
    std::fill_n(inArena<float>(*engine, rank, pipeline.valueOffset), pipeline.plan.sequenceLength, 3.0f);
  const std::string failure = failureOf(*engine, [] { return Status::error("disk full"); });
  EXPECT_NE(failure.find("disk full"), std::string::npos) << failure;
  for (int64_t rank : {0, 1})
    for (int64_t s = 0; s < pipeline.plan.sequenceLength; ++s)
      EXPECT_EQ(inArena<float>(*engine, rank, pipeline.valueOffset)[s], 3.0f);
}

TEST(Failure, aBatchOutsideTheVocabularyIsRefused) {
  const PipelinePlan pipeline = makePipelinePlan(1);
  std::unique_ptr<Engine> engine = makeEngine(pipeline.plan);
  GlobalBatch batch = makeBatch(pipeline.plan, 0);
  batch.tokens[16 + 3] = 100;
  Result<StepResult> result = engine->step(0, batch, StepScalars{});
  ASSERT_FALSE(result.isOk());
  EXPECT_EQ(result.status().message(), "sample 1 of the batch, position 3: token 100 is not in the vocabulary of 100");
  batch.tokens[16 + 3] = 99;
  batch.labels[0] = -2;
  result = engine->step(0, batch, StepScalars{});
  ASSERT_FALSE(result.isOk());
  EXPECT_EQ(result.status().message(), "sample 0 of the batch, position 0: label -2 is not in the vocabulary of 100");
  batch.labels[0] = 0;
  EXPECT_TRUE(engine->step(0, batch, StepScalars{}).isOk()) << "a refused batch leaves the engine usable";
}

} // namespace
} // namespace mgc::test
