// Products with epilogues in a plan: which operands are whose, and what a choice of algorithms knows of them.
#include "plan/prove/VerifyPlan.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/exec/device/HostDevices.h"

#include <gtest/gtest.h>

namespace mgc::test {
namespace {

using Epilogue = OnDevice;

constexpr StepScalars kScalars = {0.5, 2, -1, 3, 7, 1, 1, 1};

// C[j] = scalars[0] scalars[j], and scalars[j] more with a bias, of the step's eight. Results are the first of C.
plan::Plan epiloguePlan(plan::Epilogue epilogue = plan::Epilogue::bias) {
  plan::Plan plan = emptyPlan({}, {.microbatches = 1});
  plan::StagePlan &stage = plan.stages[0];
  StageLayout layout(stage);
  const int64_t work = layout.place("activations", 64);
  layout.finish();
  const plan::Gemm gemm{.m = 1, .n = 8, .k = 1, .epilogue = epilogue};
  const bool hasBias = epilogue == plan::Epilogue::bias;
  const int64_t forward =
      addChunk(plan, 0, plan::Task::forward,
               ProgramBuilder("work", {64, 64, 64})
                   .add(gemm, hasBias ? std::vector<int64_t>{0, 0, 0, 1} : std::vector<int64_t>{0, 0, 1})
                   .add(copyOf(12), {1, 2}),
               {stage.stepScalarsOffset, work, stage.resultsOffset});
  stage.schedule = {runStep(forward, 0)};
  return plan;
}

double sumAt(int64_t i) { return double(kScalars[0]) * kScalars[i] + kScalars[i]; }

StepResult resultOf(const plan::Plan &plan) {
  const std::unique_ptr<Engine> engine = engineOnDevice(plan);
  const Result<StepResult> result = engine->step(0, makeBatch(plan, 0), kScalars);
  EXPECT_TRUE(result.isOk()) << result.status().message();
  return result.isOk() ? *result : StepResult();
}

TEST_F(Epilogue, biasIsAdded) {
  const StepResult result = resultOf(epiloguePlan());
  EXPECT_EQ(result.tokens, sumAt(1));
  EXPECT_EQ(result.gradientNorm, sumAt(2));
}

TEST_F(Epilogue, isPartOfWhatAnAlgorithmIsChosenFor) {
  controls->algorithms = 2;
  TempDir folder;
  DeviceOptions device = hostDevice();
  device.tuneProducts = true;
  device.tuneCache = folder.path("products.json");
  for (const plan::Epilogue epilogue : {plan::Epilogue::none, plan::Epilogue::bias, plan::Epilogue::bias})
    engineOnDevice(epiloguePlan(epilogue), {}, device);
  EXPECT_EQ(controls->choices, 2) << "the last is the one before";
  EXPECT_TRUE(has(folder.read("products.json"),
                  {"m=1 n=8 k=1 f32 -> f32, workspace 0", "m=1 n=8 k=1 f32 -> f32 bias, workspace 0"}));
}

TEST_F(Epilogue, whatTheLibraryHasNotIsRefusedWithWhatHelps) {
  controls->algorithms = 0;
  EXPECT_TRUE(
      fails(tryEngineOnDevice(epiloguePlan()), {"work/0: algorithm 0 of 0\n  mgc compile --no-fusion makes plans"}));
}

TEST_F(Epilogue, isRefusedOnTheCpu) {
  EXPECT_TRUE(
      fails(plan::verifyPlan(epiloguePlan()), {"programs[0].instructions[0]: epilogue bias in a plan for cpu"}));
}

} // namespace
} // namespace mgc::test
