// A whole run, from the bundle to the saved weights.
#include "runtime/train/Training.h"
#include "plan/json/PlanJson.h"
#include "runtime/base/Bf16.h"
#include "runtime/checkpoint/SaveTarget.h"
#include "runtime/io/Safetensors.h"
#include "runtime/train/LossLog.h"
#include "runtime/train/StepLogs.h"
#include "test/runtime/exec/Bundle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace mgc::test {
namespace {

struct Recorder final : TrainingObserver {
  std::vector<TrainingStep> steps;
  std::vector<std::string> notes;
  std::function<void(const TrainingStep &)> onStep;
  void noted(const std::string &note) override { notes.push_back(note); }
  const Engine *engine = nullptr; // while the training runs
  void began(const TrainingOptions &, const Engine &running, const std::string &) override {
    engine = &running;
  }
  void stepped(const TrainingStep &step) override {
    steps.push_back(step);
    if (onStep)
      onStep(step);
  }
};

std::string write(const std::string &path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TrainingOptions makeOptions(const Bundle &bundle) {
  TrainingOptions options;
  options.plan = bundle.folder();
  options.trainIters = 4;
  options.optimizer.lr = 0.01;
  options.optimizer.lrDecayStyle = "constant";
  options.threads = 1;
  options.poison = true;
  options.savesState = false; // ResumeTest.cpp
  return options;
}

std::vector<float> tensorOf(const std::string &path, const std::string &name) {
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(isOk(checkpoint));
  const TensorView *tensor = checkpoint.isOk() ? checkpoint->find(name) : nullptr;
  EXPECT_NE(tensor, nullptr);
  std::vector<float> values(tensor ? tensor->elements() : 0);
  if (tensor)
    convertToF32(*tensor, 0, tensor->elements(), values.data());
  return values;
}

// The gradients are those of the mean loss, so one step moves each weight by lr * gradient.
TEST(Training, savesTheGradientsOfTheFirstStepAndTheWeights) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.trainIters = 1;
  options.save = bundle.path("out");
  options.saveGradients = bundle.path("gradients.safetensors");
  Recorder recorder;
  Interrupt interrupt;
  const Result<TrainingSummary> summary = train(options, recorder, interrupt);
  ASSERT_TRUE(isOk(summary));
  EXPECT_EQ(summary->steps, 1);
  EXPECT_FALSE(summary->interrupted);
  const std::vector<float> w = tensorOf(*options.save, "w"), gradient = tensorOf(*options.saveGradients, "w");
  ASSERT_EQ(w.size(), 16u);
  ASSERT_EQ(gradient.size(), 16u);
  for (size_t i = 0; i < w.size(); ++i) {
    EXPECT_GT(gradient[i], 0);
    EXPECT_NEAR(w[i], 1 - 0.01f * gradient[i], 1e-4);
  }
}

// Two runs of two steps, through a checkpoint, go where one of two goes with the same data: the second sees
// the data of step 0 again, and so does its twin here.
TEST(Training, startsFromSavedWeights) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.trainIters = 1;
  options.save = bundle.path("first");
  Recorder recorder;
  Interrupt interrupt;
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  options.load = *options.save + "/model.safetensors";
  options.save = bundle.path("second");
  options.saveGradients = bundle.path("gradients.safetensors");
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  const std::vector<float> first = tensorOf(bundle.path("first"), "w"),
                           second = tensorOf(bundle.path("second"), "w"),
                           gradient = tensorOf(*options.saveGradients, "w");
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(second[i], first[i] - 0.01f * gradient[i], 1e-4);
  EXPECT_LT(recorder.steps[1].result.loss, recorder.steps[0].result.loss);
}

// The run is the same to the bit, so what is saved as bf16 is the rounding of what is saved as f32; f32 goes back.
TEST(Training, savesEitherTypeOfAPlanOfBf16) {
  const Bundle bundle(2, {.dtype = plan::DType::bf16});
  TrainingOptions options = makeOptions(bundle);
  options.optimizer.lr = 0.001;
  const auto run = [&](const std::string &to, std::optional<plan::DType> type) {
    options.save = bundle.path(to);
    options.saveType = type;
    Recorder recorder;
    Interrupt interrupt;
    EXPECT_TRUE(isOk(train(options, recorder, interrupt)));
    return tensorOf(*options.save, "w");
  };
  const std::vector<float> values = run("values", {}), masters = run("masters", plan::DType::f32);
  ASSERT_EQ(values.size(), 16u);
  EXPECT_NE(values, masters);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], toFloat(toBf16(masters[i])));
  EXPECT_NE(bundle.read("values/config.json").find("bfloat16"), std::string::npos);
  options.load = bundle.path("masters/model.safetensors");
  options.trainIters = 0;
  EXPECT_EQ(run("again", plan::DType::f32), masters);
}

TEST(Training, profilesProductsOfBf16) {
  const Bundle bundle(1, {.dtype = plan::DType::bf16});
  TrainingOptions options = makeOptions(bundle);
  options.profile = true;
  Recorder recorder;
  Interrupt interrupt;
  const Result<TrainingSummary> summary = train(options, recorder, interrupt);
  ASSERT_TRUE(isOk(summary));
  EXPECT_GT(summary->profile->rates.bf16Flops, 0);
}

TEST(Training, theLogHasALinePerStep) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.optimizer.lrList = {0.1, 0, 0.25, 0.5};
  options.log = bundle.path("log.jsonl");
  Recorder recorder;
  Interrupt interrupt;
  const Result<TrainingSummary> summary = train(options, recorder, interrupt);
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
  EvaluationResult evaluation{
      .step = 9, .what = "validation", .loss = 0, .tokens = 64, .seconds = 0.5, .batches = 2};
  EXPECT_EQ(lineOf(evaluation),
            "{\"step\":9,\"validation_loss\":0.0,\"validation_perplexity\":1.0,\"validation_tokens\":64,"
            "\"seconds\":0.5}");
  evaluation.loss = 1000; // no infinity, which JSON does not have
  EXPECT_EQ(evaluation.perplexity(), std::exp(20.0));
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
            "norm\":3.0,"
            "\"lr\":0.0,\"tokens\":106,\"seconds\":0.0}\n"
            "{\"step\":1,\"loss\":2.0,\"grad_norm\":3.0,\"lr\":0.0,\"tokens\":106,\"seconds\":0.0}\n");
}

TEST(Training, aLogIsGoneOnWith) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.trainIters = 1;
  options.log = bundle.path("log.jsonl");
  Recorder recorder;
  Interrupt interrupt;
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  const std::string first = bundle.read("log.jsonl");
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  EXPECT_EQ(bundle.read("log.jsonl").substr(0, first.size()), first);
  EXPECT_EQ(std::ranges::count(bundle.read("log.jsonl"), '\n'), 2);
  write(bundle.path("log.jsonl"), "{\"step\":0,\"lo"); // of a run that was killed
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  EXPECT_EQ(bundle.read("log.jsonl").substr(0, 17), first.substr(0, 17)); // what was begun is gone
  EXPECT_EQ(std::ranges::count(bundle.read("log.jsonl"), '\n'), 1);
  write(bundle.path("log.jsonl"), "{\"step\":7}"); // of an editor that leaves out the last line's end
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  EXPECT_EQ(bundle.read("log.jsonl").find("{\"step\":7}\n{\"step\":0,\"loss\":"), 0u);
  write(bundle.path("log.jsonl"), "my notes\n");
  EXPECT_TRUE(fails(train(options, recorder, interrupt),
                    {"log.jsonl: holds something else than the lines of a log"}));
  EXPECT_EQ(bundle.read("log.jsonl"), "my notes\n");
}

TEST(Training, aLogThatIsDeletedIsSaid) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.log = bundle.path("log.jsonl");
  Recorder recorder;
  Interrupt interrupt;
  recorder.onStep = [&](const TrainingStep &step) {
    if (step.step == 1)
      std::filesystem::remove(*options.log);
  };
  const Result<TrainingSummary> summary = train(options, recorder, interrupt);
  ASSERT_TRUE(isOk(summary));
  EXPECT_TRUE(fails(summary->outputs, {"2 of the steps are not in it", "was deleted during the training"}));
}

TEST(Training, aSecondRunIsKeptFromFilesOfTheFirst) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle), saves = options, logs = options;
  options.save = saves.save = bundle.path("out");
  options.log = logs.log = bundle.path("log.jsonl");
  saves.log = bundle.path("another.jsonl");
  Recorder recorder, second;
  Interrupt interrupt;
  int looked = 0;
  recorder.onStep = [&](const TrainingStep &step) {
    if (step.step != 0)
      return;
    Interrupt none;
    EXPECT_TRUE(fails(train(saves, second, none), {"--save", "another run saves into this folder"}));
    EXPECT_TRUE(fails(train(logs, second, none), {"--log", "another run writes this log"}));
    ++looked;
  };
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  EXPECT_EQ(looked, 1);
  EXPECT_TRUE(isOk(train(options, second, interrupt))) << "after it";
}

TEST(Training, outputsReplaceFilesOfTheirKindOnly) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.trainIters = 2;
  options.trace = bundle.path("trace.json");
  options.profileJson = bundle.path("profile.json");
  options.saveGradients = bundle.path("gradients.safetensors");
  options.save = bundle.path("out");
  Recorder recorder;
  Interrupt interrupt;
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  ASSERT_TRUE(isOk(train(options, recorder, interrupt))) << "its own";
  TrainingOptions wrong = makeOptions(bundle);
  wrong.load = options.saveGradients;
  EXPECT_TRUE(fails(train(wrong, recorder, interrupt),
                    {"holds gradients, as --save-gradients writes them, expected weights"}));
  const auto refused = [&](std::optional<std::string> TrainingOptions::*flag, const std::string &path,
                           const char *name) {
    TrainingOptions other = makeOptions(bundle);
    other.*flag = path;
    EXPECT_TRUE(
        fails(train(other, recorder, interrupt), {path + ": holds something else than", name, "--force"}));
    other.force = true;
    EXPECT_TRUE(isOk(train(other, recorder, interrupt))) << name;
  };
  const std::string weights = bundle.path("weights.safetensors");
  std::filesystem::copy_file(*options.save + "/model.safetensors", weights);
  refused(&TrainingOptions::saveGradients, weights, "--save-gradients");
  refused(&TrainingOptions::trace, write(bundle.path("notes.txt"), "mine"), "--trace");
  refused(&TrainingOptions::profileJson, *options.trace, "--profile-json");
}

TEST(Training, aBatchWithoutALossEndsIt) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  const Result<plan::Plan> plan = plan::readPlan(bundle.folder());
  ASSERT_TRUE(isOk(plan));
  const std::vector<int64_t> shape = {1, plan->globalBatchSize, plan->sequenceLength};
  const std::vector<TensorSpec> specs = {{"input_ids", ElementType::I32, shape},
                                         {"labels", ElementType::I32, shape}};
  const std::vector<int32_t> tokens(size_t(shape[1] * shape[2]), 0), labels(tokens.size(), kIgnoredLabel);
  options.data = bundle.path("data.safetensors");
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(*options.data, specs, {});
  ASSERT_TRUE(isOk(writer));
  ASSERT_TRUE(isOk(writer->write(std::as_bytes(std::span(tokens)))));
  ASSERT_TRUE(isOk(writer->write(std::as_bytes(std::span(labels)))));
  ASSERT_TRUE(isOk(writer->commit()));
  Recorder recorder;
  Interrupt interrupt;
  EXPECT_TRUE(fails(train(options, recorder, interrupt),
                    {"step 0: all", "labels of the batch are -100", "has no loss"}));
}

TEST(Training, aSaveReplacesNoOtherModel) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.trainIters = 1;
  options.save = bundle.path("out");
  Recorder recorder;
  Interrupt interrupt;
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  ASSERT_TRUE(isOk(train(options, recorder, interrupt))) << "its own";
  const std::vector<TensorSpec> specs = {{"other", ElementType::F32, {1}}};
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(bundle.path("out/model.safetensors"), specs, {});
  ASSERT_TRUE(isOk(writer));
  const float one = 1;
  ASSERT_TRUE(isOk(writer->write(std::as_bytes(std::span(&one, 1)))));
  ASSERT_TRUE(isOk(writer->commit()));
  EXPECT_TRUE(
      fails(train(options, recorder, interrupt), {"--save: ", "checkpoint of another model", "--force"}));
  options.force = true;
  EXPECT_TRUE(isOk(train(options, recorder, interrupt)));
}

TEST(Training, leftoversOfKilledSavesAreRemoved) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.trainIters = 1;
  options.save = bundle.path("out");
  std::filesystem::create_directory(*options.save);
  std::vector<std::string> leftovers, foreign;
  for (const char *name :
       {"model.safetensors.tmp-999999999-3", "config.json.tmp-999999998-1",
        "latest_checkpointed_iteration.txt.tmp-1-1", "model.safetensors.replaced-999999999"})
    leftovers.push_back(write(bundle.path(std::string("out/") + name), "x"));
  const std::string shard = write(bundle.path("out/model-v2-00001-of-00002.safetensors"), "x");
  for (const char *name :
       {"notes.tmp-999999999-1", "model.safetensors.replaced-2024-05-01", "model.py.replaced-999999999",
        "model.safetensors.tmp-999999999", "model.safetensors.tmp-999999999-1.bak", "config.json.replaced-x"})
    foreign.push_back(write(bundle.path(std::string("out/") + name), "x"));
  Recorder recorder;
  Interrupt interrupt;
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  std::string notes;
  for (const std::string &note : recorder.notes)
    notes += note + "\n";
  for (const std::string &path : leftovers) {
    EXPECT_FALSE(std::filesystem::exists(path)) << path;
    EXPECT_NE(notes.find(path + ": left by a save that was killed; removed"), std::string::npos) << notes;
  }
  EXPECT_TRUE(std::filesystem::exists(shard));
  EXPECT_NE(notes.find(shard + ": no index names this shard"), std::string::npos) << notes;
  for (const std::string &path : foreign) {
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
    EXPECT_EQ(notes.find(path + ":"), std::string::npos) << notes;
  }
}

TEST(Training, roomThatSavesNeed) {
  EXPECT_EQ(bytesToSave(10, 0, false), 10);
  EXPECT_EQ(bytesToSave(10, 7, false), 10); // the old one goes when the new one is there
  EXPECT_EQ(bytesToSave(10, 0, true), 20);
  EXPECT_EQ(bytesToSave(10, 10, true), 10);
  EXPECT_EQ(bytesToSave(10, 4, true), 16);
}

TEST(Training, anInterruptBeforeTheFirstStepSavesNothing) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.trainIters = 1;
  options.save = bundle.path("out");
  Recorder recorder;
  Interrupt none, early;
  ASSERT_TRUE(isOk(train(options, recorder, none)));
  const std::vector<float> trained = tensorOf(*options.save, "w");
  early.request();
  const Result<TrainingSummary> summary = train(options, recorder, early);
  ASSERT_TRUE(isOk(summary));
  EXPECT_TRUE(summary->interrupted);
  EXPECT_EQ(tensorOf(*options.save, "w"), trained);
}

// The rate goes on towards the last step of all.
TEST(Training, exitsBeforeItsLastStepAndSaves) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.save = bundle.path("out");
  const auto steps = [&](int64_t interval, std::optional<double> minutes) -> int64_t {
    options.exitInterval = interval, options.exitMinutes = minutes;
    std::filesystem::remove_all(*options.save);
    Recorder recorder;
    Interrupt interrupt;
    const Result<TrainingSummary> summary = train(options, recorder, interrupt);
    EXPECT_TRUE(isOk(summary));
    EXPECT_FALSE(summary->interrupted);
    EXPECT_EQ(summary->endedEarly, summary->steps < options.trainIters);
    EXPECT_EQ(tensorOf(*options.save, "w").size(), 16u);
    return summary->steps;
  };
  EXPECT_EQ(steps(3, {}), 3);
  EXPECT_EQ(steps(2, {}), 2);
  EXPECT_EQ(steps(4, {}), 4);
  EXPECT_EQ(steps(5, {}), 4);
  EXPECT_EQ(steps(0, 60), 4);
  EXPECT_EQ(steps(0, 1e-9), 1) << "the step that runs is whole";
}

TEST(Training, writesEventsForTensorBoard) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.tensorboard = bundle.path("events");
  const auto recordsOf = [&](int64_t interval) {
    options.tensorboardInterval = interval;
    std::filesystem::remove_all(*options.tensorboard);
    Recorder recorder;
    Interrupt interrupt;
    EXPECT_TRUE(isOk(train(options, recorder, interrupt)));
    const auto file = std::filesystem::directory_iterator(*options.tensorboard);
    std::ifstream stream(file->path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
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
  EXPECT_NE(text.find("throughput tokens/s/device "), std::string::npos) << text;
}

// On two ranks of a CPU, in each step.
TEST(Training, logsThroughputIfAsked) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.findStepWork = [](const plan::Plan &) { return StepWork{1e9, 0}; };
  Recorder recorder;
  Interrupt interrupt;
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  for (const TrainingStep &step : recorder.steps) {
    ASSERT_TRUE(step.throughput);
    EXPECT_DOUBLE_EQ(step.throughput->flops,
                     1e9 / (step.seconds * double(bundle.pipeline().plan.mesh.worldSize())));
  }
}

TEST(Training, anInterruptEndsAfterTheStepAndSaves) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.save = bundle.path("out");
  Recorder recorder;
  Interrupt interrupt;
  recorder.onStep = [&](const TrainingStep &step) {
    if (step.step == 1)
      interrupt.request();
  };
  const Result<TrainingSummary> summary = train(options, recorder, interrupt);
  ASSERT_TRUE(isOk(summary));
  EXPECT_EQ(summary->steps, 2);
  EXPECT_TRUE(summary->interrupted);
  EXPECT_EQ(tensorOf(*options.save, "w").size(), 16u);
}

// The log's disk fills; what was trained is in --save all the same.
TEST(Training, aLogThatFailsDoesNotEndTheTraining) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.log = "/dev/full";
  options.save = bundle.path("out");
  Recorder recorder;
  Interrupt interrupt;
  const Result<TrainingSummary> summary = train(options, recorder, interrupt);
  ASSERT_TRUE(isOk(summary));
  EXPECT_EQ(summary->steps, options.trainIters);
  EXPECT_TRUE(fails(summary->outputs, {fmt::format("{} of the steps are not in it", options.trainIters),
                                       "/dev/full: cannot be written"}));
  ASSERT_EQ(recorder.notes.size(), 1u); // said once
  EXPECT_NE(recorder.notes[0].find("the training goes on"), std::string::npos);
  EXPECT_EQ(tensorOf(*options.save, "w").size(), 16u);
}

TEST(Training, savesAtIntervals) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.trainIters = 5;
  options.save = bundle.path("out");
  options.saveInterval = 2;
  Recorder recorder;
  Interrupt interrupt;
  std::vector<bool> saved; // when step i is done, is there a checkpoint of the steps before?
  recorder.onStep = [&](const TrainingStep &) { saved.push_back(Checkpoint::open(*options.save).isOk()); };
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  EXPECT_EQ(saved, (std::vector<bool>{false, false, true, true, true}));
}

TEST(Training, aSaveBetweenThatCannotBeWrittenIsTriedAgain) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.save = bundle.path("out");
  options.saveInterval = 2;
  Recorder recorder;
  Interrupt interrupt;
  recorder.onStep = [&](const TrainingStep &step) {
    if (step.step == 1) {
      std::filesystem::remove_all(*options.save);
      write(*options.save, "in the way");
    } else if (step.step == 2) {
      std::filesystem::remove(*options.save);
    }
  };
  ASSERT_TRUE(isOk(train(options, recorder, interrupt)));
  ASSERT_EQ(recorder.notes.size(), 1u);
  EXPECT_NE(recorder.notes[0].find("after 2 steps: "), std::string::npos) << recorder.notes[0];
  EXPECT_EQ(tensorOf(*options.save, "w").size(), 16u);
}

TEST(Training, weightsThatMustNotBeSavedEndIt) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.save = bundle.path("out");
  options.saveInterval = 2;
  Recorder recorder;
  Interrupt interrupt;
  recorder.onStep = [&](const TrainingStep &step) {
    if (step.step == 1) // a replica that is not the same any more
      std::memset(recorder.engine->arenas()[0] + recorder.engine->plan().stages[0].buckets[0].valueOffset, 1,
                  4);
  };
  EXPECT_TRUE(fails(train(options, recorder, interrupt), {"parameter w: ranks 1 differ from rank 0"}));
  EXPECT_EQ(recorder.steps.size(), 2u);
  EXPECT_TRUE(std::filesystem::is_empty(*options.save));
}

TEST(Training, abortEndsInTheMiddleAndSavesNothing) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.save = bundle.path("out");
  Recorder recorder;
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.abort()) << "nothing runs yet";
  recorder.onStep = [&](const TrainingStep &step) {
    if (step.step == 1) {
      EXPECT_TRUE(interrupt.abort());
    }
  };
  EXPECT_TRUE(fails(train(options, recorder, interrupt), {"interrupted in the middle"}));
  EXPECT_TRUE(std::filesystem::is_empty(*options.save)) << "made before the training, to know it can be";
  EXPECT_FALSE(interrupt.abort()) << "nothing runs any more";
}

TEST(Training, aLossThatIsNotFiniteIsAnError) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.optimizer.lr = 1e38;
  Recorder recorder;
  Interrupt interrupt;
  EXPECT_TRUE(fails(train(options, recorder, interrupt), {"step ", "not finite", "--lr"}));
  EXPECT_GT(recorder.steps.size(), 0u);
}

// Said of the weights, where it is they that were not finite from the beginning.
TEST(Training, weightsThatAreNotFiniteAreNamed) {
  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  options.load = bundle.path("weights.safetensors");
  const std::vector<TensorSpec> tensors = {{"w", ElementType::F32, {16}}};
  for (const float bad : {INFINITY, -NAN}) {
    std::vector<float> values(16, 1.0f);
    values[3] = values[11] = bad;
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(*options.load, tensors);
    ASSERT_TRUE(isOk(writer));
    ASSERT_TRUE(isOk(writer->write(std::as_bytes(std::span(values)))));
    ASSERT_TRUE(isOk(writer->finish()));
    ASSERT_TRUE(isOk(writer->commit()));
    Recorder recorder;
    Interrupt interrupt;
    const Status failure = train(options, recorder, interrupt).status();
    EXPECT_TRUE(fails(failure,
                      {"step 0: ", "not finite; --load " + *options.load + " has weights that are not finite",
                       fmt::format("\n  w: element 3 is {}", bad)}));
    EXPECT_EQ(failure.message().find("--lr"), std::string::npos);
  }
}

TEST(Training, everyWrongInputIsNamed) {
  const Bundle bundle;
  Recorder recorder;
  Interrupt interrupt;
  TrainingOptions options = makeOptions(bundle);
  options.plan = bundle.path("absent");
  EXPECT_TRUE(fails(train(options, recorder, interrupt), {"absent"}));
  options = makeOptions(bundle);
  options.data = bundle.path("absent.npy");
  EXPECT_TRUE(fails(train(options, recorder, interrupt), {"absent.npy"}));
  options = makeOptions(bundle);
  options.load = bundle.path("absent.safetensors");
  EXPECT_TRUE(fails(train(options, recorder, interrupt), {"absent.safetensors"}));
  options = makeOptions(bundle);
  options.log = bundle.path("absent/log.jsonl");
  EXPECT_TRUE(fails(train(options, recorder, interrupt), {"absent/log.jsonl", "cannot be written"}));
  options = makeOptions(bundle);
  options.optimizer.lrDecayStyle = "steps";
  EXPECT_TRUE(fails(train(options, recorder, interrupt), {"--lr-decay-style = steps"}));
  EXPECT_TRUE(recorder.steps.empty());
}

} // namespace
} // namespace mgc::test
