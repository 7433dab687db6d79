// Every failure on a device, at load or in a step, ends in an error that says where and what would work.
#include "test/runtime/exec/Failures.h"
#include "test/runtime/exec/device/HostDevices.h"

namespace mgc::test {
namespace {

using std::chrono::milliseconds;

using DeviceFailure = OnDevice;

std::string loadError(const plan::Plan &plan, const DeviceOptions &device = hostDevice()) {
  const Result<std::unique_ptr<Engine>> engine = tryEngineOnDevice(plan, {}, device);
  EXPECT_FALSE(engine.isOk());
  return engine.isOk() ? "" : engine.status().message();
}

std::unique_ptr<Engine> onDevice(const plan::Plan &plan, EngineOptions options) {
  return engineOnDevice(plan, std::move(options));
}

TEST_F(DeviceFailure, tooLittleMemoryIsSaidBeforeAnythingIsAllocated) {
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
  EXPECT_TRUE(has(loadError(pipeline.plan), {"a layout whose ranks need 2.0 times less would fit"}));
  EXPECT_EQ(controls->allocations, 0);
  controls->totalBytes = needed;
  EXPECT_NE(engineOnDevice(pipeline.plan), nullptr) << "exactly as much is enough";
}

TEST_F(DeviceFailure, aDeviceThatIsTooOldIsRefused) {
  controls->computeCapability = 75;
  EXPECT_EQ(loadError(makePipelinePlan(1).plan),
            "the plan's kernels need compute capability 8.0 (sm_80), this device, stand-in on the host, has 7.5; "
            "compile the plan with --target cuda:sm_75, if it is one of those that mgc compiles for");
}

TEST_F(DeviceFailure, aDeviceThatIsNotThereIsRefused) {
  DeviceOptions device = hostDevice();
  device.ordinal = 3;
  EXPECT_EQ(loadError(makePipelinePlan(1).plan, device), "device 3: this machine has 1");
}

TEST_F(DeviceFailure, aPluginThatIsNotThereIsNamed) {
  DeviceOptions device = hostDevice();
  device.plugin = "/nowhere/libmgc_cuda.so";
  EXPECT_TRUE(has(loadError(makePipelinePlan(1).plan, device), {"/nowhere/libmgc_cuda.so"}));
}

TEST_F(DeviceFailure, kernelsThatWereCompiledForOtherSizesAreRefused) {
  EXPECT_TRUE(
      has(loadError(makePipelinePlan(1, {.sequence = 8}).plan), {"range = 8, but the kernel was compiled for 16"}));
}

TEST_F(DeviceFailure, aKernelThatFaultsIsNamedWithItsPlace) {
  controls->faultyKernel = "scaleBackward";
  controls->faultyCall = 1;
  const std::unique_ptr<Engine> engine = engineOnDevice(makePipelinePlan(1).plan);
  EXPECT_TRUE(has(failureOf(*engine),
                  {"rank 0 (stage 0), step 5, microbatch 1, backward.0, backward/0", ": an illegal memory access"}));
  EXPECT_TRUE(has(failureOf(*engine), {"an illegal memory access"})) << "the engine stays failed";
}

TEST_F(DeviceFailure, aKernelThatFaultsInAGraphIsNamedToo) {
  const plan::Plan alone = onePlan();
  const std::unique_ptr<Engine> engine = engineOnDevice(alone);
  for (int64_t step = 0; step < 3; ++step)
    ASSERT_TRUE(engine->step(step, makeBatch(alone, step), StepScalars{}).isOk());
  EXPECT_EQ(controls->launchedGraphs, 2);
  controls->faultyKernel = "norm";
  EXPECT_EQ(failureOf(*engine), "rank 0 (stage 0), step 5, microbatch 0, forward.0, work/1: an illegal memory access");
}

TEST_F(DeviceFailure, aKernelThatHangsIsNamedAtTheDeadline) {
  controls->hangingKernel = "norm";
  const plan::Plan alone = onePlan();
  std::unique_ptr<Engine> engine = engineOnDevice(alone, {.timeout = std::chrono::milliseconds(200)});
  EXPECT_EQ(failureOf(*engine), "rank 0 (stage 0), step 5, microbatch 0, forward.0, work/1: waited 0.2 s for "
                                "the device to end this instruction");
  engine.reset(); // does not wait for it either
  controls->released = true;
}

// A collective stands before it, which is done on a stream of its own and which nothing joins before the end.
TEST_F(DeviceFailure, aKernelThatHangsBesideACollectiveIsNamed) {
  controls->hangingKernel = "norm";
  plan::Plan plan = onePlan();
  const plan::Collective reduce{.chunk = 16};
  std::vector<plan::Instruction> &work = plan.programs[0].instructions;
  work.insert(work.begin() + 1, {reduce, {{0, 0}, {0, 0}}, "reduce"});
  std::unique_ptr<Engine> engine = engineOnDevice(plan, {.timeout = std::chrono::milliseconds(200)});
  EXPECT_TRUE(has(failureOf(*engine), {"forward.0, work/1: waited"}));
  engine.reset();
  controls->released = true;
}

TEST_F(DeviceFailure, everyPlaceOfFailureEndsTheStep) {
  expectEveryFailureEndsTheStep({"begin", "forward.0", "reduce"}, onDevice,
                                [](int64_t, std::string_view) { return true; });
}

TEST_F(DeviceFailure, aHostThatHangsIsNamedAtTheDeadline) { expectHangIsNamedAtTheDeadline(onDevice); }

TEST_F(DeviceFailure, transfersThatDoNotAgreeNameBothEnds) {
  expectBothEndsOfATransferAreNamed(
      [](const plan::Plan &plan, EngineOptions) { return unverifiedEngineOnDevice(plan); });
}

TEST_F(DeviceFailure, abortFromAnotherThreadEndsTheStep) { expectAbortEndsTheStep(onDevice); }

TEST_F(DeviceFailure, anErrorOfBeforeUpdateStopsTheUpdate) {
  const PipelinePlan pipeline = makePipelinePlan(2);
  const std::unique_ptr<Engine> engine = engineOnDevice(pipeline.plan);
  setWeights(pipeline, *engine);
  EXPECT_TRUE(has(failureOf(*engine, [] { return Status::error("disk full"); }), {"disk full"}));
  ASSERT_TRUE(engine->download(Part::weights).isOk());
  for (int64_t s = 0; s < pipeline.plan.sequenceLength; ++s)
    EXPECT_EQ(inArena<float>(*engine, 0, pipeline.valueOffset)[s], 0.25f * float(s + 1));
}

} // namespace
} // namespace mgc::test
