// The engine on the stand-in device: the bits of the CPU, whenever its streams do what.
#include "runtime/train/OptimizerSchedule.h"
#include "test/runtime/exec/device/HostDevices.h"

#include <cstring>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

using DeviceEngine = OnDevice;

constexpr uint64_t kSeeds = 12; // seeds of pauses; 0: none

TEST_F(DeviceEngine, ranksThatShareADeviceTrainAsOnTheCpu) {
  for (int64_t dp : {1, 2, 3}) {
    const PipelinePlan pipeline = makePipelinePlan(dp);
    const Outcome onCpu = train(pipeline, *makeEngine(pipeline.plan));
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      controls->seed = seed;
      EXPECT_EQ(train(pipeline, *engineOnDevice(pipeline.plan)), onCpu) << "dp " << dp << ", seed " << seed;
    }
  }
}

TEST_F(DeviceEngine, processesTrainAsOnTheCpu) {
  for (int64_t dp : {1, 2}) {
    const PipelinePlan pipeline = makePipelinePlan(dp);
    const Outcome onCpu = train(pipeline, *makeEngine(pipeline.plan));
    for (bool graphs : {false, true})
      for (uint64_t seed = 0; seed < kSeeds / 2; ++seed) {
        controls->seed = seed;
        controls->launchedGraphs = 0;
        const Outcome outcome = trainInProcesses(pipeline, graphs);
        EXPECT_EQ(outcome, onCpu) << "dp " << dp << ", graphs " << graphs << ", seed " << seed;
        EXPECT_EQ(controls->launchedGraphs, graphs ? 3 * 2 * dp : 0) << "of four steps the first is not captured";
      }
  }
}

TEST_F(DeviceEngine, aRankHasExactlyTheAllocationOfThePlan) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  const std::unique_ptr<Engine> engine = engineOnDevice(pipeline.plan);
  EXPECT_EQ(controls->allocations, 4);
  EXPECT_EQ(controls->liveBytes, 2 * (pipeline.plan.stages[0].bytes + pipeline.plan.stages[1].bytes));
}

TEST_F(DeviceEngine, aStepAllocatesNothing) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  const std::unique_ptr<Engine> engine = engineOnDevice(pipeline.plan);
  controls->allocations = 0;
  train(pipeline, *engine);
  EXPECT_EQ(controls->allocations, 0);
}

TEST_F(DeviceEngine, beforeUpdateSeesCompleteGradientsAndResults) {
  controls->seed = 5;
  const PipelinePlan pipeline = makePipelinePlan(2);
  const GlobalBatch batch = makeBatch(pipeline.plan, 0);
  const auto gradientsOf = [&](Engine &engine, const std::function<Status()> &upload) {
    EXPECT_TRUE(upload().isOk());
    std::vector<float> seen;
    double tokens = 0;
    const Result<StepResult> result = engine.step(0, batch, stepScalars({}, 0.5, 0), [&] {
      for (int64_t rank : {0, 1}) {
        const float *gradient = inArena<float>(engine, rank, pipeline.gradientOffset);
        seen.insert(seen.end(), gradient, gradient + pipeline.plan.sequenceLength);
      }
      tokens = engine.results().tokens;
      return Status::ok();
    });
    EXPECT_TRUE(result.isOk()) << result.status().message();
    EXPECT_EQ(tokens, result->tokens);
    return seen;
  };
  const std::unique_ptr<Engine> onCpu = makeEngine(pipeline.plan), onDevice = engineOnDevice(pipeline.plan);
  setWeights(pipeline, *onCpu);
  setWeights(pipeline, *onDevice);
  const auto nothing = [] { return Status::ok(); };
  EXPECT_EQ(gradientsOf(*onDevice, nothing), gradientsOf(*onCpu, nothing));
}

TEST_F(DeviceEngine, inputsAreStagedAheadAndOnce) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  const Outcome expected = train(pipeline, *makeEngine(pipeline.plan));
  const std::unique_ptr<Engine> engine = engineOnDevice(pipeline.plan);
  std::vector<int64_t> asked;
  std::array<GlobalBatch, 2> batches;
  engine->readAhead([&](int64_t step) -> const GlobalBatch * {
    asked.push_back(step);
    if (step == 3)
      return nullptr; // comes with the step itself
    return &(batches[step % 2] = makeBatch(pipeline.plan, step));
  });
  EXPECT_EQ(train(pipeline, *engine), expected);
  EXPECT_EQ(asked, (std::vector<int64_t>{1, 2, 3, 4}));
}

// Stage 1 sends its step scalars, which come back to it through stage 0, and both stages make them their results: the
// results agree if nothing was read too early. Stage 0 may not block at the send that waits for a receive: stage 1
// sends only after a collective that stage 0 joins later in its list.
plan::Plan forwardingPlan() {
  plan::Plan plan = emptyPlan({{"pp", 2, plan::AxisRole::stage}}, {.microbatches = 1});
  const plan::Collective meet{.stages = {0, 1}, .chunk = 16};
  std::vector<int64_t> buffers, runs;
  for (int64_t stage : {0, 1}) {
    plan::StagePlan &to = plan.stages[stage];
    StageLayout layout(to);
    buffers.push_back(layout.place("activations", 2 * 64));
    layout.finish();
    runs.push_back(addChunk(plan, stage, plan::Task::begin, ProgramBuilder("meet", {64}).add(meet, {0, 0}),
                            {buffers[stage] + 64}));
    runs.push_back(addChunk(plan, stage, plan::Task::forward, ProgramBuilder("keep", {64, 64}).add(copyOf(64), {0, 1}),
                            {buffers[stage], to.resultsOffset}));
  }
  const auto ring = [&](int64_t stage, int64_t offset, int64_t value) {
    return addRing(plan, stage, offset, 64, 1, 1 - stage, value);
  };
  plan.stages[0].schedule = {receiveStep(ring(0, buffers[0], 10), 0), sendStep(ring(0, buffers[0], 11), 0, {1}),
                             runStep(runs[0]), runStep(runs[1], 0, {3})};
  plan.stages[1].schedule = {runStep(runs[2]), sendStep(ring(1, plan.stages[1].stepScalarsOffset, 10), 0, {1}),
                             receiveStep(ring(1, buffers[1], 11), 0), runStep(runs[3], 0, {1})};
  return plan;
}

TEST_F(DeviceEngine, aTransferWaitsForAnotherAndDoesNotHoldUpTheList) {
  const plan::Plan plan = forwardingPlan();
  for (uint64_t seed = 0; seed < 2 * kSeeds; ++seed) {
    controls->seed = seed;
    const std::unique_ptr<Engine> engine = engineOnDevice(plan, {.timeout = std::chrono::seconds(30)});
    for (int64_t step = 0; step < 4; ++step) {
      const StepScalars scalars = stepScalars({}, 0.5 + double(step), step);
      const Result<StepResult> result = engine->step(step, makeBatch(plan, 0), scalars);
      ASSERT_TRUE(result.isOk()) << result.status().message() << ", seed " << seed;
      EXPECT_EQ(result->loss, scalars[0]);
      EXPECT_EQ(result->gradientNorm, scalars[2]);
    }
  }
}

} // namespace
} // namespace mgc::test
