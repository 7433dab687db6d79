// Every failure on a device, at load or in a step, ends in an error that says where and what would work.
#include "test/runtime/exec/device/HostDevices.h"

#include <gtest/gtest.h>
#include <thread>

namespace mgc::test {
namespace {

using std::chrono::milliseconds;

std::string loadError(const plan::Plan &plan, const DeviceOptions &device = hostDevice()) {
  const Result<std::unique_ptr<Engine>> engine = tryEngineOnDevice(plan, {}, device);
  EXPECT_FALSE(engine.isOk());
  return engine.isOk() ? "" : engine.status().message();
}

std::string failureOf(Engine &engine, const std::function<Status()> &beforeUpdate = nullptr) {
  const Result<StepResult> result = engine.step(5, makeBatch(engine.plan(), 5), StepScalars{}, beforeUpdate);
  EXPECT_FALSE(result.isOk());
  return result.isOk() ? "" : result.status().message();
}

TEST(DeviceFailure, tooLittleMemoryIsSaidBeforeAnythingIsAllocated) {
  PluginControls controls;
  const PipelinePlan pipeline = makePipelinePlan(2);
  const int64_t needed = 2 * (pipeline.plan.stages[0].bytes + pipeline.plan.stages[1].bytes);
  controls->totalBytes = needed - 1;
  EXPECT_EQ(
      loadError(pipeline.plan),
      fmt::format("device 0 (stand-in on the host) has too little memory: 4 of the plan's ranks need {} bytes (0.00 "
                  "GiB), {} bytes (0.00 GiB) are free of {} bytes (0.00 GiB); nothing was allocated; a device for "
                  "each of the 4 ranks would fit, which need {} bytes (0.00 GiB) at most",
                  needed, needed - 1, needed - 1, pipeline.plan.stages[1].bytes));
  controls->totalBytes = pipeline.plan.stages[1].bytes / 2;
  EXPECT_NE(loadError(pipeline.plan).find("a layout whose ranks need 2.0 times less would fit"), std::string::npos);
  EXPECT_EQ(controls->allocations, 0);
  controls->totalBytes = needed;
  EXPECT_NE(engineOnDevice(pipeline.plan), nullptr) << "exactly as much is enough";
}

TEST(DeviceFailure, aDeviceThatIsTooOldIsRefused) {
  PluginControls controls;
  controls->computeCapability = 75;
  EXPECT_EQ(loadError(makePipelinePlan(1).plan),
            "the plan's kernels need compute capability 8.0 (sm_80), this device, stand-in on the host, has "
            "7.5; compile the "
            "plan with --target cuda:sm_75, if it is one of those that mgc compiles for");
}

TEST(DeviceFailure, aDeviceThatIsNotThereIsRefused) {
  PluginControls controls;
  DeviceOptions device = hostDevice();
  device.ordinal = 3;
  EXPECT_EQ(loadError(makePipelinePlan(1).plan, device), "device 3: this machine has 1");
}

TEST(DeviceFailure, aPluginThatIsNotThereIsNamed) {
  DeviceOptions device = hostDevice();
  device.plugin = "/nowhere/libmgc_cuda.so";
  EXPECT_NE(loadError(makePipelinePlan(1).plan, device).find("/nowhere/libmgc_cuda.so"), std::string::npos);
}

TEST(DeviceFailure, kernelsThatWereCompiledForOtherSizesAreRefused) {
  PluginControls controls;
  const std::string failure = loadError(makePipelinePlan(1, {.sequence = 8}).plan);
  EXPECT_NE(failure.find("range = 8, but the kernel was compiled for 16"), std::string::npos) << failure;
}

TEST(DeviceFailure, aKernelThatFaultsIsNamedWithItsPlace) {
  PluginControls controls;
  controls->faultyKernel = "scaleBackward";
  controls->faultyCall = 1;
  const std::unique_ptr<Engine> engine = engineOnDevice(makePipelinePlan(1).plan);
  const std::string failure = failureOf(*engine),
                    expected = "rank 0 (stage 0), step 5, microbatch 1, backward.0, backward/0";
  EXPECT_NE(failure.find(expected), std::string::npos) << failure;
  EXPECT_NE(failure.find(": an illegal memory access"), std::string::npos) << failure;
  EXPECT_NE(failureOf(*engine).find("an illegal memory access"), std::string::npos) << "the engine stays failed";
}

TEST(DeviceFailure, aKernelThatFaultsInAGraphIsNamedToo) {
  PluginControls controls;
  const PipelinePlan pipeline = makePipelinePlan(1);
  plan::Plan alone = onePlan();
  const std::unique_ptr<Engine> engine = engineOnDevice(alone);
  for (int64_t step = 0; step < 3; ++step)
    ASSERT_TRUE(engine->step(step, makeBatch(alone, step), StepScalars{}).isOk());
  EXPECT_EQ(controls->launchedGraphs, 2);
  controls->faultyKernel = "norm";
  EXPECT_EQ(failureOf(*engine), "rank 0 (stage 0), step 5, microbatch 0, forward.0, work/1: an illegal memory access");
}

TEST(DeviceFailure, aKernelThatHangsIsNamedAtTheDeadline) {
  PluginControls controls;
  controls->hangingKernel = "norm";
  const plan::Plan alone = onePlan();
  std::unique_ptr<Engine> engine = engineOnDevice(alone, {.timeout = milliseconds(200)});
  EXPECT_EQ(failureOf(*engine), "rank 0 (stage 0), step 5, microbatch 0, forward.0, work/1: waited 0.2 s for "
                                "the device to end this instruction");
  engine.reset(); // does not wait for it either
  controls->released = true;
}

// A collective stands before it, which is done on a stream of its own and which nothing joins before the end.
TEST(DeviceFailure, aKernelThatHangsBesideACollectiveIsNamed) {
  PluginControls controls;
  controls->hangingKernel = "norm";
  plan::Plan plan = onePlan();
  plan::Collective reduce;
  reduce.chunk = 16;
  std::vector<plan::Instruction> &work = plan.programs[0].instructions;
  work.insert(work.begin() + 1, {reduce, {{0, 0}, {0, 0}}, "reduce"});
  std::unique_ptr<Engine> engine = engineOnDevice(plan, {.timeout = milliseconds(200)});
  EXPECT_NE(failureOf(*engine).find("forward.0, work/1: waited"), std::string::npos);
  engine.reset();
  controls->released = true;
}

TEST(DeviceFailure, everyPlaceOfFailureEndsTheStep) {
  PluginControls controls;
  const PipelinePlan pipeline = makePipelinePlan(2);
  for (int64_t rank = 0; rank < 4; ++rank)
    for (const char *chunk : {"begin", "forward.0", "reduce"}) {
      const auto inject = [&](const ExecutionPlace &place) {
        return place.rank == rank && place.chunk == chunk ? Status::error("injected") : Status::ok();
      };
      const std::unique_ptr<Engine> engine = engineOnDevice(pipeline.plan, {.inject = inject});
      const std::string failure = failureOf(*engine);
      EXPECT_EQ(failure.find(fmt::format("rank {} (stage {}), step 5", rank, rank / 2)), 0u) << failure;
      EXPECT_NE(failure.find(": injected"), std::string::npos) << failure;
    }
}

TEST(DeviceFailure, aHostThatHangsIsNamedAtTheDeadline) {
  PluginControls controls;
  const auto inject = [](const ExecutionPlace &place) {
    if (place.rank == 1 && place.chunk == "forward.0" && place.microbatch == 2)
      std::this_thread::sleep_for(milliseconds(1500));
    return Status::ok();
  };
  const std::unique_ptr<Engine> engine =
      engineOnDevice(makePipelinePlan(1).plan, {.timeout = milliseconds(200), .inject = inject});
  EXPECT_EQ(failureOf(*engine), "rank 0 (stage 0), step 5, microbatch 2, backward.0: waited 0.2 s for rank 1 "
                                "to send value 2 of microbatch 2 "
                                "(128 bytes)");
}

TEST(DeviceFailure, transfersThatDoNotAgreeNameBothEnds) {
  PluginControls controls;
  PipelinePlan pipeline = makePipelinePlan(1);
  for (plan::Ring &ring : pipeline.plan.stages[1].rings)
    if (ring.value == 1) // the ring of the activations, which it receives
      ring.value = 77;
  const std::string failure = failureOf(*unverifiedEngineOnDevice(pipeline.plan));
  EXPECT_NE(
      failure.find("rank 0 sends value 1 of microbatch 0 (128 bytes) where rank 1 receives value 77 of microbatch 0 "
                   "(128 bytes)"),
      std::string::npos)
      << failure;
}

TEST(DeviceFailure, abortFromAnotherThreadEndsTheStep) {
  PluginControls controls;
  std::atomic<bool> reached{false}, leave{false};
  const auto inject = [&](const ExecutionPlace &place) {
    reached = reached || (place.rank == 1 && place.chunk == "forward.0");
    while (place.rank == 1 && place.chunk == "forward.0" && !leave)
      std::this_thread::sleep_for(milliseconds(1));
    return Status::ok();
  };
  const std::unique_ptr<Engine> engine = engineOnDevice(makePipelinePlan(1).plan, {.inject = inject});
  std::thread killer([&] {
    while (!reached)
      std::this_thread::sleep_for(milliseconds(1));
    engine->abort(Status::error("interrupted"));
    leave = true;
  });
  EXPECT_EQ(failureOf(*engine), "interrupted");
  killer.join();
}

TEST(DeviceFailure, anErrorOfBeforeUpdateStopsTheUpdate) {
  PluginControls controls;
  const PipelinePlan pipeline = makePipelinePlan(2);
  const std::unique_ptr<Engine> engine = engineOnDevice(pipeline.plan);
  setWeights(pipeline, *engine);
  const std::string failure = failureOf(*engine, [] { return Status::error("disk full"); });
  EXPECT_NE(failure.find("disk full"), std::string::npos) << failure;
  ASSERT_TRUE(engine->download(Part::weights).isOk());
  for (int64_t s = 0; s < pipeline.plan.sequenceLength; ++s)
    EXPECT_EQ(inArena<float>(*engine, 0, pipeline.valueOffset)[s], 0.25f * float(s + 1));
}

} // namespace
} // namespace mgc::test
