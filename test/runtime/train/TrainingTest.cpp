// A whole run, from the bundle to the saved weights. Its logs: RunLogsTest.cpp.
#include "runtime/base/Bf16.h"
#include "runtime/checkpoint/SaveTarget.h"
#include "test/runtime/train/TrainingRun.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace mgc::test {
namespace {

// The gradients are those of the mean loss, so one step moves each weight by lr * gradient.
TEST_F(Training, savesTheGradientsOfTheFirstStepAndTheWeights) {
  options.trainIters = 1;
  options.save = bundle.path("out");
  options.saveGradients = bundle.path("gradients.safetensors");
  const Result<TrainingSummary> summary = run();
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
TEST_F(Training, startsFromSavedWeights) {
  options.trainIters = 1;
  options.save = bundle.path("first");
  ASSERT_TRUE(isOk(run()));
  options.load = *options.save + "/model.safetensors";
  options.save = bundle.path("second");
  options.saveGradients = bundle.path("gradients.safetensors");
  ASSERT_TRUE(isOk(run()));
  const std::vector<float> first = tensorOf(bundle.path("first"), "w"), second = tensorOf(bundle.path("second"), "w"),
                           gradient = tensorOf(*options.saveGradients, "w");
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(second[i], first[i] - 0.01f * gradient[i], 1e-4);
  EXPECT_LT(recorder.steps[1].result.loss, recorder.steps[0].result.loss);
}

// The run is the same to the bit, so what is saved as bf16 is the rounding of what is saved as f32; f32 goes back.
TEST_F(Training, savesEitherTypeOfAPlanOfBf16) {
  const Bundle bundle(2, {.dtype = plan::DType::bf16});
  options = makeOptions(bundle);
  options.optimizer.lr = 0.001;
  const auto saved = [&](const std::string &to, std::optional<plan::DType> type) {
    options.save = bundle.path(to);
    options.saveType = type;
    EXPECT_TRUE(isOk(run()));
    return tensorOf(*options.save, "w");
  };
  const std::vector<float> values = saved("values", {}), masters = saved("masters", plan::DType::f32);
  ASSERT_EQ(values.size(), 16u);
  EXPECT_NE(values, masters);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], toFloat(toBf16(masters[i])));
  EXPECT_TRUE(has(bundle.read("values/config.json"), {"bfloat16"}));
  options.load = bundle.path("masters/model.safetensors");
  options.trainIters = 0;
  EXPECT_EQ(saved("again", plan::DType::f32), masters);
}

TEST_F(Training, profilesProductsOfBf16) {
  const Bundle bundle(1, {.dtype = plan::DType::bf16});
  options = makeOptions(bundle);
  options.profile = true;
  const Result<TrainingSummary> summary = run();
  ASSERT_TRUE(isOk(summary));
  EXPECT_GT(summary->profile->rates.bf16Flops, 0);
}

TEST_F(Training, outputsReplaceFilesOfTheirKindOnly) {
  options.trainIters = 2;
  options.trace = bundle.path("trace.json");
  options.profileJson = bundle.path("profile.json");
  options.saveGradients = bundle.path("gradients.safetensors");
  options.save = bundle.path("out");
  ASSERT_TRUE(isOk(run()));
  ASSERT_TRUE(isOk(run())) << "its own";
  TrainingOptions wrong = makeOptions(bundle);
  wrong.load = options.saveGradients;
  EXPECT_TRUE(
      fails(train(wrong, recorder, interrupt), {"holds gradients, as --save-gradients writes them, expected weights"}));
  const std::string trace = *options.trace;
  const auto refused = [&](std::optional<std::string> TrainingOptions::*flag, const std::string &path,
                           const char *name) {
    options = makeOptions(bundle);
    options.*flag = path;
    EXPECT_TRUE(fails(run(), {path + ": holds something else than", name, "--force"}));
    options.force = true;
    EXPECT_TRUE(isOk(run())) << name;
  };
  const std::string weights = bundle.path("weights.safetensors");
  std::filesystem::copy_file(*options.save + "/model.safetensors", weights);
  refused(&TrainingOptions::saveGradients, weights, "--save-gradients");
  refused(&TrainingOptions::trace, bundle.write("notes.txt", "mine"), "--trace");
  refused(&TrainingOptions::profileJson, trace, "--profile-json");
}

TEST_F(Training, batchesWithoutALossAreSkipped) {
  const plan::Plan &plan = bundle.pipeline().plan;
  const std::vector<int64_t> shape = {1, plan.globalBatchSize, plan.sequenceLength};
  const std::vector<int32_t> tokens(size_t(shape[1] * shape[2]), 0), labels(tokens.size(), kIgnoredLabel);
  options.data = TensorWriter()
                     .add("input_ids", shape, tokens)
                     .add("labels", shape, labels)
                     .write(bundle.path("data.safetensors"));
  const Result<TrainingSummary> summary = run();
  ASSERT_TRUE(isOk(summary));
  EXPECT_EQ(summary->skipped, 4);
  ASSERT_EQ(recorder.notes.size(), 4u);
  EXPECT_NE(recorder.notes[0].find("step 0: all"), std::string::npos);
  options.trainIters = 200;
  EXPECT_TRUE(fails(run(), {"step 99: all", "labels of the batch are -100", "of the 99 steps before"}));
}

TEST_F(Training, aSaveReplacesNoOtherModel) {
  options.trainIters = 1;
  options.save = bundle.path("out");
  ASSERT_TRUE(isOk(run()));
  ASSERT_TRUE(isOk(run())) << "its own";
  TensorWriter().add("other", {1}, std::vector<float>{1}).write(bundle.path("out/model.safetensors"));
  EXPECT_TRUE(fails(run(), {"--save: ", "checkpoint of another model", "--force"}));
  options.force = true;
  EXPECT_TRUE(isOk(run()));
}

TEST_F(Training, leftoversOfKilledSavesAreRemoved) {
  options.trainIters = 1;
  options.save = bundle.path("out");
  std::filesystem::create_directory(*options.save);
  std::vector<std::string> leftovers, foreign;
  for (const char *name : {"model.safetensors.tmp-999999999-3", "config.json.tmp-999999998-1",
                           "latest_checkpointed_iteration.txt.tmp-1-1", "model.safetensors.replaced-999999999"})
    leftovers.push_back(bundle.write(std::string("out/") + name, "x"));
  const std::string shard = bundle.write("out/model-v2-00001-of-00002.safetensors", "x");
  for (const char *name :
       {"notes.tmp-999999999-1", "model.safetensors.replaced-2024-05-01", "model.py.replaced-999999999",
        "model.safetensors.tmp-999999999", "model.safetensors.tmp-999999999-1.bak", "config.json.replaced-x"})
    foreign.push_back(bundle.write(std::string("out/") + name, "x"));
  ASSERT_TRUE(isOk(run()));
  std::string notes;
  for (const std::string &note : recorder.notes)
    notes += note + "\n";
  for (const std::string &path : leftovers) {
    EXPECT_FALSE(std::filesystem::exists(path)) << path;
    EXPECT_TRUE(has(notes, {path + ": left by a save that was killed; removed"}));
  }
  EXPECT_TRUE(std::filesystem::exists(shard));
  EXPECT_TRUE(has(notes, {shard + ": no index names this shard"}));
  for (const std::string &path : foreign) {
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
    EXPECT_EQ(notes.find(path + ":"), std::string::npos) << notes;
  }
}

TEST_F(Training, roomThatSavesNeed) {
  EXPECT_EQ(bytesToSave(10, 0, false), 10);
  EXPECT_EQ(bytesToSave(10, 7, false), 10); // the old one goes when the new one is there
  EXPECT_EQ(bytesToSave(10, 0, true), 20);
  EXPECT_EQ(bytesToSave(10, 10, true), 10);
  EXPECT_EQ(bytesToSave(10, 4, true), 16);
}

TEST_F(Training, anInterruptBeforeTheFirstStepSavesNothing) {
  options.trainIters = 1;
  options.save = bundle.path("out");
  ASSERT_TRUE(isOk(run()));
  const std::vector<float> trained = tensorOf(*options.save, "w");
  interrupt.request();
  const Result<TrainingSummary> summary = run();
  ASSERT_TRUE(isOk(summary));
  EXPECT_TRUE(summary->interrupted);
  EXPECT_EQ(tensorOf(*options.save, "w"), trained);
}

// The rate goes on towards the last step of all.
TEST_F(Training, exitsBeforeItsLastStepAndSaves) {
  options.save = bundle.path("out");
  const auto steps = [&](int64_t interval, std::optional<double> minutes) -> int64_t {
    options.exitInterval = interval, options.exitMinutes = minutes;
    std::filesystem::remove_all(*options.save);
    const Result<TrainingSummary> summary = run();
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

TEST_F(Training, anInterruptEndsAfterTheStepAndSaves) {
  options.save = bundle.path("out");
  afterStep(1, [&] { interrupt.request(); });
  const Result<TrainingSummary> summary = run();
  ASSERT_TRUE(isOk(summary));
  EXPECT_EQ(summary->steps, 2);
  EXPECT_TRUE(summary->interrupted);
  EXPECT_EQ(tensorOf(*options.save, "w").size(), 16u);
}

// A request between two engines of a run ends it as one in a step does, not the process at once.
TEST_F(Training, isThereBetweenTwoEngines) {
  Interrupt between;
  EXPECT_FALSE(interrupt.isTraining());
  recorder.onStep = [&](const TrainingStep &) {
    EXPECT_TRUE(interrupt.isTraining());
    between.watch(const_cast<Engine *>(recorder.engine));
    between.watch(nullptr);
    EXPECT_TRUE(between.isTraining());
  };
  ASSERT_TRUE(isOk(run()));
  EXPECT_FALSE(interrupt.isTraining());
}

TEST_F(Training, savesAtIntervals) {
  options.trainIters = 5;
  options.save = bundle.path("out");
  options.saveInterval = 2;
  std::vector<bool> saved; // when step i is done, is there a checkpoint of the steps before?
  recorder.onStep = [&](const TrainingStep &) { saved.push_back(Checkpoint::open(*options.save).isOk()); };
  ASSERT_TRUE(isOk(run()));
  EXPECT_EQ(saved, (std::vector<bool>{false, false, true, true, true}));
}

TEST_F(Training, aSaveBetweenThatCannotBeWrittenIsTriedAgain) {
  options.save = bundle.path("out");
  options.saveInterval = 2;
  recorder.onStep = [&](const TrainingStep &step) {
    if (step.step == 1) {
      std::filesystem::remove_all(*options.save);
      bundle.write("out", "in the way");
    } else if (step.step == 2) {
      std::filesystem::remove(*options.save);
    }
  };
  ASSERT_TRUE(isOk(run()));
  ASSERT_EQ(recorder.notes.size(), 1u);
  EXPECT_TRUE(has(recorder.notes[0], {"after 2 steps: "}));
  EXPECT_EQ(tensorOf(*options.save, "w").size(), 16u);
}

TEST_F(Training, weightsThatMustNotBeSavedEndIt) {
  options.save = bundle.path("out");
  options.saveInterval = 2;
  afterStep(1, [&] { // a replica that is not the same any more
    std::memset(recorder.engine->arenas()[0] +
                    recorder.engine->plan().stages[0].buckets[0].offsetOf(plan::StateRole::value),
                1, 4);
  });
  EXPECT_TRUE(fails(run(), {"parameter w: ranks 1 differ from rank 0"}));
  EXPECT_EQ(recorder.steps.size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(*options.save));
}

TEST_F(Training, abortEndsInTheMiddleAndSavesNothing) {
  options.save = bundle.path("out");
  EXPECT_FALSE(interrupt.abort()) << "nothing runs yet";
  afterStep(1, [&] { EXPECT_TRUE(interrupt.abort()); });
  EXPECT_TRUE(fails(run(), {"interrupted in the middle"}));
  EXPECT_FALSE(std::filesystem::exists(*options.save)) << "made before the training, to know it can be, and removed";
  EXPECT_FALSE(interrupt.abort()) << "nothing runs any more";
}

TEST_F(Training, aLossThatIsNotFiniteIsAnError) {
  options.optimizer.lr = 1e38;
  EXPECT_TRUE(fails(run(), {"step ", "not finite", "--lr"}));
  EXPECT_GT(recorder.steps.size(), 0u);
}

// Said of the weights, where it is they that were not finite from the beginning.
TEST_F(Training, weightsThatAreNotFiniteAreNamed) {
  options.load = bundle.path("weights.safetensors");
  for (const float bad : {INFINITY, -NAN}) {
    std::vector<float> values(16, 1.0f);
    values[3] = values[11] = bad;
    TensorWriter().add("w", {16}, values).write(*options.load);
    const Status failure = run().status();
    EXPECT_TRUE(fails(failure, {"step 0: ", "not finite; --load " + *options.load + " has weights that are not finite",
                                fmt::format("\n  w: element 3 is {}", bad)}));
    EXPECT_EQ(failure.message().find("--lr"), std::string::npos);
  }
}

TEST_F(Training, everyWrongInputIsNamed) {
  const auto runWith = [&](auto change) {
    options = makeOptions(bundle);
    change(options);
    return run();
  };
  EXPECT_TRUE(fails(runWith([&](auto &o) { o.plan = bundle.path("absent"); }), {"absent"}));
  EXPECT_TRUE(fails(runWith([&](auto &o) { o.data = bundle.path("absent.npy"); }), {"absent.npy"}));
  EXPECT_TRUE(fails(runWith([&](auto &o) { o.load = bundle.path("absent.safetensors"); }), {"absent.safetensors"}));
  EXPECT_TRUE(fails(runWith([&](auto &o) { o.log = bundle.path("absent/log.jsonl"); }),
                    {"absent/log.jsonl", "cannot be written"}));
  EXPECT_TRUE(fails(runWith([](auto &o) { o.optimizer.lrDecayStyle = "steps"; }), {"--lr-decay-style = steps"}));
  EXPECT_TRUE(recorder.steps.empty());
}

} // namespace
} // namespace mgc::test
