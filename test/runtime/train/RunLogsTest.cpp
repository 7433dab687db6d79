// Numbers of a run's steps: in the log, in TensorBoard's event files, their throughput.
#include "runtime/train/LossLog.h"
#include "runtime/train/StepLogs.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/train/TrainingRun.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace mgc::test {
namespace {

TEST_F(Training, theLogHasALinePerStep) {
  options.optimizer.lrList = {0.1, 0, 0.25, 0.5};
  options.log = bundle.path("log.jsonl");
  const Result<TrainingSummary> summary = run();
  ASSERT_TRUE(isOk(summary));
  std::istringstream lines(bundle.read("log.jsonl"));
  std::string line;
  int64_t step = 0;
  for (; std::getline(lines, line); ++step) {
    const nlohmann::json json = nlohmann::json::parse(line);
    EXPECT_EQ(json["step"], step);
    EXPECT_EQ(json["lr"], options.optimizer.lrList[step]);
    EXPECT_EQ(json["loss"].get<double>(), recorder.steps[step].result.loss);
    EXPECT_EQ(json["grad_norm"].get<double>(), recorder.steps[step].result.gradientNorm);
    EXPECT_EQ(json["tokens"].get<double>(), recorder.steps[step].result.tokens);
    EXPECT_GT(json["seconds"].get<double>(), 0);
  }
  EXPECT_EQ(step, 4);
  EXPECT_EQ(summary->firstLoss, recorder.steps.front().result.loss);
  EXPECT_EQ(summary->lastLoss, recorder.steps.back().result.loss);
}

TEST(LossLog, evaluationsHaveLinesOfTheirOwn) {
  EvaluationResult evaluation{.step = 9, .what = "validation", .loss = 0, .tokens = 64, .seconds = 0.5, .batches = 2};
  EXPECT_EQ(lineOf(evaluation),
            "{\"step\":9,\"validation_loss\":0.0,\"validation_perplexity\":1.0,\"validation_tokens\":64,"
            "\"seconds\":0.5}");
  evaluation.loss = 1000; // no infinity, which JSON does not have
  EXPECT_EQ(evaluation.perplexity(), std::exp(20.0));
}

TEST(LossLog, linesThatComeAgainAreCutOff) {
  const std::string steps = "{\"step\":2,\"loss\":1}\n{\"step\":3,\"loss\":1}\n",
                    validation = "{\"step\":3,\"validation_loss\":1}\n", test = "{\"step\":3,\"test_loss\":1}\n",
                    later = "{\"step\":4,\"loss\":1}\n{\"step\":5,\"lo";
  const auto keeps = [&](const std::string &kept, const std::optional<LogContinuation> &continued) {
    const TempDir folder;
    folder.write("log.jsonl", steps + validation + test + later);
    LossLog log;
    EXPECT_TRUE(log.open(folder.path("log.jsonl"), continued).isOk());
    return folder.read("log.jsonl") == kept;
  };
  EXPECT_TRUE(keeps(steps + validation + test, LogContinuation{4}));
  EXPECT_TRUE(keeps(steps + validation, LogContinuation{4, {"test"}}));
  EXPECT_TRUE(keeps(steps, LogContinuation{4, {"validation", "test"}}));
  EXPECT_TRUE(
      keeps(steps + validation + test + later.substr(0, later.find('\n') + 1), LogContinuation{5, {"validation"}}));
}

TEST(LossLog, termsStandBesideTheLossAndAddUpToIt) {
  const Bundle bundle;
  LossLog log;
  ASSERT_TRUE(log.open(bundle.path("log.jsonl"), std::nullopt).isOk());
  const StepValues values = {212, 106, 3, 0.25, 0.5, 0}; // plan::kResults
  const std::vector<size_t> terms = {3, 4};
  ASSERT_TRUE(log.write(lineOf(TrainingStep{.step = 0, .result = resultOf(values, terms)})).isOk());
  ASSERT_TRUE(log.write(lineOf(TrainingStep{.step = 1, .result = resultOf(values, {})})).isOk());
  EXPECT_EQ(bundle.read("log.jsonl"),
            "{\"step\":0,\"loss\":2.75,\"cross_entropy\":2.0,\"seq_aux_loss\":0.25,\"z_loss\":0.5,\"grad_"
            "norm\":3.0,\"lr\":0.0,\"tokens\":106,\"seconds\":0.0}\n"
            "{\"step\":1,\"loss\":2.0,\"grad_norm\":3.0,\"lr\":0.0,\"tokens\":106,\"seconds\":0.0}\n");
}

TEST_F(Training, aLogIsGoneOnWith) {
  options.trainIters = 1;
  options.log = bundle.path("log.jsonl");
  ASSERT_TRUE(isOk(run()));
  const std::string first = bundle.read("log.jsonl");
  ASSERT_TRUE(isOk(run()));
  EXPECT_EQ(bundle.read("log.jsonl").substr(0, first.size()), first);
  EXPECT_EQ(std::ranges::count(bundle.read("log.jsonl"), '\n'), 2);
  bundle.write("log.jsonl", "{\"step\":0,\"lo"); // the log of a run that was killed
  ASSERT_TRUE(isOk(run()));
  EXPECT_EQ(bundle.read("log.jsonl").substr(0, 17), first.substr(0, 17)); // the unfinished line is gone
  EXPECT_EQ(std::ranges::count(bundle.read("log.jsonl"), '\n'), 1);
  bundle.write("log.jsonl", "{\"step\":7}"); // an editor may leave out the last line's end
  ASSERT_TRUE(isOk(run()));
  EXPECT_EQ(bundle.read("log.jsonl").find("{\"step\":7}\n{\"step\":0,\"loss\":"), 0u);
  bundle.write("log.jsonl", "my notes\n");
  EXPECT_TRUE(fails(run(), {"log.jsonl: holds something else than the lines of a log"}));
  EXPECT_EQ(bundle.read("log.jsonl"), "my notes\n");
}

TEST_F(Training, aLogThatIsDeletedIsSaid) {
  options.log = bundle.path("log.jsonl");
  afterStep(1, [&] { std::filesystem::remove(*options.log); });
  const Result<TrainingSummary> summary = run();
  ASSERT_TRUE(isOk(summary));
  EXPECT_TRUE(fails(summary->outputs, {"2 of the steps are not in it", "was deleted during the training"}));
}

TEST_F(Training, aSecondRunIsKeptFromFilesOfTheFirst) {
  TrainingOptions saves = options, logs = options;
  options.save = saves.save = bundle.path("out");
  options.log = logs.log = bundle.path("log.jsonl");
  saves.log = bundle.path("another.jsonl");
  Recorder second;
  int looked = 0;
  afterStep(0, [&] {
    Interrupt none;
    EXPECT_TRUE(fails(train(saves, second, none), {"--save", "another run saves into this folder"}));
    EXPECT_TRUE(fails(train(logs, second, none), {"--log", "another run writes this log"}));
    ++looked;
  });
  ASSERT_TRUE(isOk(run()));
  EXPECT_EQ(looked, 1);
  EXPECT_TRUE(isOk(train(options, second, interrupt))) << "after it";
}

TEST_F(Training, writesEventsForTensorBoard) {
  options.tensorboard = bundle.path("events");
  const auto recordsOf = [&](int64_t interval) {
    options.tensorboardInterval = interval;
    std::filesystem::remove_all(*options.tensorboard);
    EXPECT_TRUE(isOk(run()));
    const auto file = std::filesystem::directory_iterator(*options.tensorboard);
    const std::string bytes = bundle.read("events/" + file->path().filename().string());
    int64_t found = 0;
    for (size_t at = bytes.find("lm loss"); at != bytes.npos; at = bytes.find("lm loss", at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(recordsOf(1), 4);
  EXPECT_EQ(recordsOf(3), 2); // steps 0 and 3
}

TEST(StepLogs, scalarsHaveTheTagsOfMegatron) {
  plan::Plan plan;
  plan.globalBatchSize = 4, plan.sequenceLength = 8;
  TrainingStep step;
  step.result.loss = 3, step.result.crossEntropy = 2, step.result.gradientNorm = 0.5;
  step.result.terms = {{"load_balancing_loss", 1}};
  step.lr = 0.1, step.seconds = 2;
  std::string text;
  for (const EventScalar &scalar : scalarsOf(step, plan))
    text += fmt::format("{} {}\n", scalar.tag, scalar.value);
  EXPECT_EQ(text, "lm loss 2\nload_balancing_loss 1\ngrad-norm 0.5\nlearning-rate 0.1\nbatch-size 4\n"
                  "iteration-time 2\ntokens/s 16\n");
}

TEST(Throughput, isOfEachDevice) {
  plan::Plan plan;
  plan.globalBatchSize = 4, plan.sequenceLength = 8;
  const Throughput known = throughputOf({6e12, 2e12}, plan, 0.5, 8);
  EXPECT_DOUBLE_EQ(known.tokens, 8);
  EXPECT_DOUBLE_EQ(known.flops, 1.5e12);
  EXPECT_DOUBLE_EQ(known.utilisation, 0.75);
  EXPECT_EQ(throughputOf({6e12, 0}, plan, 0.5, 8).utilisation, 0);

  TrainingStep step;
  step.seconds = 0.5, step.throughput = known;
  const auto line = nlohmann::json::parse(lineOf(step));
  EXPECT_DOUBLE_EQ(line["tflops_per_device"].get<double>(), 1.5);
  EXPECT_DOUBLE_EQ(line["tokens_per_second_per_device"].get<double>(), 8);
  EXPECT_DOUBLE_EQ(line["mfu"].get<double>(), 0.75);
  step.throughput->utilisation = 0;
  EXPECT_FALSE(nlohmann::json::parse(lineOf(step)).contains("mfu"));
  std::string text;
  for (const EventScalar &scalar : scalarsOf(step, plan))
    text += scalar.tag + " ";
  EXPECT_TRUE(has(text, {"throughput tokens/s/device "}));
}

// On two ranks of a CPU, in each step.
TEST_F(Training, logsThroughputIfAsked) {
  options.findStepWork = [](const plan::Plan &) { return StepWork{1e9, 0}; };
  ASSERT_TRUE(isOk(run()));
  for (const TrainingStep &step : recorder.steps) {
    ASSERT_TRUE(step.throughput);
    EXPECT_DOUBLE_EQ(step.throughput->flops, 1e9 / (step.seconds * double(bundle.pipeline().plan.mesh.worldSize())));
  }
}

// The log's disk fills; what was trained is in --save all the same.
TEST_F(Training, aLogThatFailsDoesNotEndTheTraining) {
  options.log = "/dev/full";
  options.save = bundle.path("out");
  const Result<TrainingSummary> summary = run();
  ASSERT_TRUE(isOk(summary));
  EXPECT_EQ(summary->steps, options.trainIters);
  EXPECT_TRUE(fails(summary->outputs, {fmt::format("{} of the steps are not in it", options.trainIters),
                                       "/dev/full: cannot be written"}));
  ASSERT_EQ(recorder.notes.size(), 1u); // said once
  EXPECT_TRUE(has(recorder.notes[0], {"the training goes on"}));
  EXPECT_EQ(tensorOf(*options.save, "w").size(), 16u);
}

} // namespace
} // namespace mgc::test
