// Bad steps: what is one, and that a step that is skipped leaves no trace but its data.
#include "runtime/train/StepChecks.h"
#include "test/runtime/train/TrainingRun.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

StepResult resultOf(double loss, double norm) {
  StepResult result;
  result.loss = loss, result.gradientNorm = norm;
  return result;
}

// Megatron-LM's rerun_state_machine.is_unexpectedly_large, whose facts these are.
TEST(LargeValues, areTenTimesTheLargestOfTheFirstHundred) {
  LargeValues values;
  for (int64_t i = 0; i < LargeValues::kSamples; ++i) {
    EXPECT_FALSE(values.isTooLarge(i == 40 ? -3 : 1));
    EXPECT_FALSE(values.isTooLarge(NAN)) << "which is not counted";
  }
  EXPECT_FALSE(values.isTooLarge(29.9));
  EXPECT_TRUE(values.isTooLarge(30));
  EXPECT_TRUE(values.isTooLarge(-31));
  EXPECT_FALSE(values.isTooLarge(INFINITY));
  EXPECT_EQ(values.largest(), 3) << "later values do not move it";
}

TEST(StepChecks, nameWhatIsWrong) {
  StepChecks checks({.finite = true, .spikyLoss = true, .largeGradients = true, .skips = 2});
  for (int64_t i = 0; i < LargeValues::kSamples; ++i)
    EXPECT_TRUE(checks.judge(resultOf(2, 3)));
  EXPECT_FALSE(checks.judge(resultOf(NAN, 3)));
  EXPECT_EQ(checks.finding(), "loss nan, gradient norm 3: not finite");
  EXPECT_FALSE(checks.isFinite());
  EXPECT_FALSE(checks.judge(resultOf(20, 3)));
  EXPECT_EQ(checks.finding(), "loss 20: at least 10 times the largest of the first 100 steps, 2");
  EXPECT_FALSE(checks.isOver());
  EXPECT_FALSE(checks.judge(resultOf(2, 30)));
  EXPECT_EQ(checks.finding(), "gradient norm 30: at least 10 times the largest of the first 100 steps, 3");
  EXPECT_TRUE(checks.isOver());
  EXPECT_TRUE(checks.judge(resultOf(2, 3)));
  EXPECT_EQ(checks.finding(), "");
  EXPECT_FALSE(checks.isOver());
}

TEST(StepChecks, thatAreOffFindNothing) {
  StepChecks checks({.finite = false});
  EXPECT_TRUE(checks.judge(resultOf(INFINITY, NAN)));
  EXPECT_FALSE(checks.isFinite());
  EXPECT_TRUE(checks.judge(resultOf(1e9, 1)));
}

constexpr int64_t kSteps = 104, kBadStep = 101;

// The loss of the hand-made plan is linear in the tokens: those of one batch make it large.
class SkipTest : public Training {
protected:
  SkipTest() {
    options.savesWeightsAlone = false;
    options.optimizer.lr = 1e-3;
    options.optimizer.lrDecayStyle = "cosine";
    options.optimizer.lrDecay = 200;
    options.checks.spikyLoss = true;
  }
  // Batches of ones, in between one of `bad`; 1: none.
  std::string writeData(const std::string &name, int64_t batches, int32_t bad) const {
    const plan::Plan &plan = bundle.pipeline().plan;
    const int64_t each = plan.globalBatchSize * plan.sequenceLength;
    std::vector<int32_t> tokens(static_cast<size_t>(batches * each), 1);
    std::fill_n(tokens.begin() + kBadStep * each, each, bad);
    const std::vector<int64_t> shape = {batches, plan.globalBatchSize, plan.sequenceLength};
    return TensorWriter().add("input_ids", shape, tokens).add("labels", shape, tokens).write(bundle.path(name));
  }
  void set(const std::string &data, int64_t steps, const std::string &save) {
    options.data = data, options.trainIters = steps, options.save = bundle.path(save);
  }
  Result<TrainingSummary> run() {
    recorder = {};
    return Training::run();
  }
  std::string weightsOf(const std::string &save) const { return bundle.read(save + "/model.safetensors"); }
};

TEST_F(SkipTest, aSpikeEndsTheRunAndNamesItsData) {
  const std::string data = writeData("data.safetensors", kSteps, 50);
  set(data, kSteps, "out");
  EXPECT_TRUE(fails(run(), {"step 101: loss 4", "at least 10 times the largest of the first 100 steps",
                            "--skip-bad-steps", "\nthe step's data: " + data + ": batch 101"}));
  EXPECT_FALSE(std::filesystem::exists(bundle.path("out")));
  EXPECT_EQ(std::ssize(recorder.steps), kBadStep + 1);
}

// Weights, moments and the place in the schedule are those of a run that never had the batch; through a checkpoint too.
TEST_F(SkipTest, aSkippedStepLeavesNoTrace) {
  const std::string data = writeData("data.safetensors", kSteps, 50);
  set(data, kSteps, "skipped");
  options.checks.skips = 1;
  options.log = bundle.path("log.jsonl");
  const Result<TrainingSummary> summary = run();
  ASSERT_TRUE(isOk(summary));
  EXPECT_EQ(summary->steps, kSteps);
  EXPECT_EQ(summary->skipped, 1);
  ASSERT_EQ(recorder.notes.size(), 1u);
  EXPECT_TRUE(has(recorder.notes[0], {"its update is skipped\nthe step's data: " + data + ": batch 101"}));
  EXPECT_FALSE(recorder.steps[kBadStep].result.isUpdated);
  const std::string log = bundle.read("log.jsonl");
  EXPECT_TRUE(has(log, {"{\"step\":101,", "\"skipped\":true"}));
  EXPECT_EQ(log.find("\"skipped\":true"), log.rfind("\"skipped\":true"));

  options.log.reset();
  options.checks.skips = 0;
  set(writeData("good.safetensors", kSteps - 1, 1), kSteps - 1, "good");
  ASSERT_TRUE(isOk(run()));
  EXPECT_EQ(weightsOf("skipped"), weightsOf("good"));

  options.checks.skips = 1;
  set(data, kSteps, "halves");
  options.exitInterval = kBadStep + 1;
  ASSERT_TRUE(isOk(run()));
  EXPECT_EQ(std::ssize(recorder.steps), kBadStep + 1);
  options.exitInterval = 0;
  options.load = options.save;
  ASSERT_TRUE(isOk(run()));
  EXPECT_EQ(std::ssize(recorder.steps), kSteps - kBadStep - 1);
  EXPECT_EQ(weightsOf("halves"), weightsOf("good"));
}

// Its first steps are those of the training, not of the run.
TEST_F(SkipTest, aSpikeIsFoundByARunThatGoesOn) {
  set(writeData("data.safetensors", kSteps, 50), kSteps, "out");
  options.exitInterval = 60;
  ASSERT_TRUE(isOk(run()));
  options.exitInterval = 0;
  options.load = options.save;
  EXPECT_TRUE(fails(run(), {"step 101: loss 4", "at least 10 times the largest of the first 100 steps"}));
}

// All steps are bad: the next one after those that may be skipped ends the run.
TEST_F(SkipTest, tooManyInARowEndTheRun) {
  set(writeData("data.safetensors", kSteps, 1), kSteps, "out");
  options.load = bundle.path("weights.safetensors");
  TensorWriter().add("w", {16}, std::vector<float>(16, INFINITY)).write(*options.load);
  options.checks.skips = 2;
  options.save.reset();
  EXPECT_TRUE(fails(run(), {"step 2: ", "not finite", "--skip-bad-steps 2", "one more"}));
  EXPECT_EQ(recorder.steps.size(), 3u);
  options.checks = {.finite = false};
  options.trainIters = 4;
  EXPECT_TRUE(isOk(run())) << "that is what was asked for";
}

} // namespace
} // namespace mgc::test
