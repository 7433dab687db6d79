// However a rank fails, the step ends on all of them and says where and why.
#include "test/runtime/exec/Failures.h"

namespace mgc::test {
namespace {

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
  expectEveryFailureEndsTheStep({"begin", "forward.0", "backward.0", "reduce", "update"}, makeEngine,
                                [](int64_t rank, std::string_view chunk) { // others have none, or nothing in it
                                  return rank < 2 || (chunk != "backward.0" && chunk != "update");
                                });
}

TEST(Failure, aRankThatHangsIsNamedAtTheDeadline) { expectHangIsNamedAtTheDeadline(makeEngine); }

TEST(Failure, transfersThatDoNotAgreeNameBothEnds) {
  expectBothEndsOfATransferAreNamed([](const plan::Plan &plan, EngineOptions) {
    const std::string bundle = std::filesystem::path(testKernels()).parent_path();
    return Engine::create(plan, bundle, {.threadsPerRank = 1}).take();
  });
}

TEST(Failure, abortFromAnotherThreadEndsTheStep) { expectAbortEndsTheStep(makeEngine); }

TEST(Failure, anErrorOfBeforeUpdateStopsTheUpdate) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  std::unique_ptr<Engine> engine = makeEngine(pipeline.plan);
  for (int64_t rank : {0, 1})
    std::fill_n(inArena<float>(*engine, rank, pipeline.valueOffset), pipeline.plan.sequenceLength, 3.0f);
  EXPECT_TRUE(has(failureOf(*engine, [] { return Status::error("disk full"); }), {"disk full"}));
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
