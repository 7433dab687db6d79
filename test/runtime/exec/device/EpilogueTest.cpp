// Products with epilogues in a plan: which operands are whose, and what a choice of algorithms knows of them.
#include "plan/prove/VerifyPlan.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/exec/device/HostDevices.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

using Epilogue = OnDevice;

constexpr StepScalars kScalars = {0.5, 2, -1, 3, 7, 1, 1, 1};

// X[j] = scalars[0] scalars[j] + scalars[j], of the step's eight. Results are the first of C, or of what GELU keeps.
plan::Plan epiloguePlan(plan::Epilogue epilogue, bool ofKept) {
  plan::Plan plan = emptyPlan({}, {.microbatches = 1});
  plan::StagePlan &stage = plan.stages[0];
  StageLayout layout(stage);
  const int64_t work = layout.place("activations", 2 * 64);
  layout.finish();
  const plan::Gemm gemm{.m = 1, .n = 8, .k = 1, .epilogue = epilogue};
  std::vector<int64_t> operands = {0, 0, 0, 1};
  if (epilogue == plan::Epilogue::gelu)
    operands.push_back(2);
  const int64_t forward =
      addChunk(plan, 0, plan::Task::forward,
               ProgramBuilder("work", {64, 64, 64, 64}).add(gemm, operands).add(copyOf(12), {ofKept ? 2 : 1, 3}),
               {stage.stepScalarsOffset, work, work + 64, stage.resultsOffset});
  stage.schedule = {runStep(forward, 0)};
  return plan;
}

double sumAt(int64_t i) { return double(kScalars[0]) * kScalars[i] + kScalars[i]; }
double geluOf(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

StepResult resultOf(const plan::Plan &plan) {
  const std::unique_ptr<Engine> engine = engineOnDevice(plan);
  const Result<StepResult> result = engine->step(0, makeBatch(plan, 0), kScalars);
  EXPECT_TRUE(result.isOk()) << result.status().message();
  return result.isOk() ? *result : StepResult();
}

TEST_F(Epilogue, biasIsAdded) {
  const StepResult result = resultOf(epiloguePlan(plan::Epilogue::bias, false));
  EXPECT_EQ(result.tokens, sumAt(1));
  EXPECT_EQ(result.gradientNorm, sumAt(2));
}

TEST_F(Epilogue, geluIsMadeBesideWhatItIsOf) {
  const StepResult kept = resultOf(epiloguePlan(plan::Epilogue::gelu, true));
  EXPECT_EQ(kept.tokens, sumAt(1));
  EXPECT_EQ(kept.gradientNorm, sumAt(2));
  const StepResult result = resultOf(epiloguePlan(plan::Epilogue::gelu, false));
  EXPECT_NEAR(result.tokens, geluOf(sumAt(1)), 1e-6);
  EXPECT_NEAR(result.gradientNorm, geluOf(sumAt(2)), 1e-6);
}

TEST_F(Epilogue, isPartOfWhatAnAlgorithmIsChosenFor) {
  controls->algorithms = 2;
  TempDir folder;
  DeviceOptions device = hostDevice();
  device.tuneProducts = true;
  device.tuneCache = folder.path("products.json");
  for (const plan::Epilogue epilogue : {plan::Epilogue::bias, plan::Epilogue::gelu, plan::Epilogue::gelu})
    engineOnDevice(epiloguePlan(epilogue, false), {}, device);
  EXPECT_EQ(controls->choices, 2) << "the last is the one before";
  EXPECT_TRUE(has(folder.read("products.json"),
                  {"m=1 n=8 k=1 f32 -> f32 bias, workspace 0", "m=1 n=8 k=1 f32 -> f32 gelu, workspace 0"}));
}

TEST_F(Epilogue, whatTheLibraryHasNotIsRefusedWithWhatHelps) {
  controls->algorithms = 0;
  EXPECT_TRUE(fails(tryEngineOnDevice(epiloguePlan(plan::Epilogue::gelu, false)),
                    {"work/0: algorithm 0 of 0\n  mgc compile --no-fusion makes plans"}));
}

TEST_F(Epilogue, isRefusedOnTheCpu) {
  EXPECT_TRUE(fails(plan::verifyPlan(epiloguePlan(plan::Epilogue::bias, false)),
                    {"programs[0].instructions[0]: epilogue bias in a plan for cpu"}));
}

} // namespace
} // namespace mgc::test
