// Trainings that save all their state and go on from it. test/e2e/resume.py does so with models, layouts and processes.
#include "runtime/checkpoint/CheckpointFolder.h"
#include "test/runtime/train/TrainingRun.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace mgc::test {
namespace {

class ResumeTest : public Training {
protected:
  TrainingOptions makeOptions(int64_t steps, const std::string &save) const {
    TrainingOptions made = options;
    made.trainIters = steps;
    made.optimizer.lrDecayStyle = "linear";
    made.optimizer.lrDecay = 6;
    made.savesWeightsAlone = false;
    made.save = bundle.path(save);
    return made;
  }
  Result<TrainingSummary> run(const TrainingOptions &options) { return train(options, recorder, interrupt); }
  // Names and contents of the files of a checkpoint.
  std::map<std::string, std::string> filesOf(const std::string &save, int64_t step) const {
    std::map<std::string, std::string> files;
    const std::string folder = checkpointsIn(bundle.path(save)).at(step);
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      files[name] = bundle.read(std::filesystem::relative(entry.path(), bundle.path("")).string());
    }
    return files;
  }
  // The losses of the steps since the last call.
  std::vector<double> takeLosses() {
    const std::vector<double> losses = lossesOf(recorder);
    recorder.steps.clear();
    return losses;
  }
  bool isNoted(std::string_view text) const {
    return std::ranges::any_of(recorder.notes, [&](const std::string &note) { return note.find(text) != note.npos; });
  }
};

TEST_F(ResumeTest, goesOnWithTheSameBits) {
  ASSERT_TRUE(isOk(run(makeOptions(6, "straight"))));
  const std::vector<double> straight = takeLosses();
  ASSERT_TRUE(isOk(run(makeOptions(3, "halves"))));
  TrainingOptions more = makeOptions(6, "halves");
  more.load = more.save;
  const Result<TrainingSummary> summary = run(more);
  ASSERT_TRUE(isOk(summary));
  EXPECT_EQ(summary->steps, 3);
  EXPECT_EQ(recorder.steps.back().step, 5);
  EXPECT_EQ(takeLosses(), straight);
  EXPECT_TRUE(isNoted("goes on after 3 steps"));
  EXPECT_EQ(filesOf("straight", 6), filesOf("halves", 6));
  EXPECT_EQ(bundle.read("straight/model.safetensors"), bundle.read("halves/model.safetensors"));
}

TEST_F(ResumeTest, savesWhileTrainingGoesOn) {
  TrainingOptions beside = makeOptions(6, "beside"), between = makeOptions(6, "between");
  for (TrainingOptions *options : {&beside, &between})
    options->saveInterval = 2, options->saveRetain = 0;
  beside.asyncSave = true;
  ASSERT_TRUE(isOk(run(beside)));
  ASSERT_TRUE(isOk(run(between)));
  for (int64_t step : {2, 4, 6})
    EXPECT_EQ(filesOf("beside", step), filesOf("between", step)) << step;
}

TEST_F(ResumeTest, aCheckpointThatFailsIsSaidAndTriedAgain) {
  TrainingOptions options = makeOptions(6, "out");
  options.saveInterval = 2;
  options.asyncSave = true; // so that the weights are not what fails
  recorder.onStep = [&](const TrainingStep &step) {
    if (step.step == 1) {
      std::filesystem::remove_all(*options.save);
    } else if (step.step == 2) {
      std::filesystem::create_directory(*options.save);
    }
  };
  ASSERT_TRUE(isOk(run(options)));
  EXPECT_TRUE(isNoted("no checkpoint was saved: "));
  EXPECT_EQ(*findCheckpoint(*options.save), bundle.path("out/iter_0000006"));
}

// Nobody checks the losses, and the weights are not looked at in the steps between.
TEST_F(ResumeTest, aStateThatIsNotFiniteReplacesNothing) {
  TrainingOptions options = makeOptions(6, "out");
  options.saveInterval = 2, options.asyncSave = true;
  options.checks.finite = false;
  recorder.onStep = [&](const TrainingStep &step) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (std::byte *arena : recorder.engine->arenas())
      if (step.step == 2)
        std::memcpy(arena + recorder.engine->plan().stages[0].buckets[0].offsetOf(plan::StateRole::value), &nan,
                    sizeof nan);
  };
  EXPECT_TRUE(fails(run(options), {"not fit to be saved"}));
  EXPECT_TRUE(isNoted("has values that are not finite"));
  EXPECT_EQ(*findCheckpoint(*options.save), bundle.path("out/iter_0000002"));
}

TEST_F(ResumeTest, weightsThatCannotBeWrittenTakeNoStateAlong) {
  const TrainingOptions options = makeOptions(3, "out");
  afterStep(2, [&] { std::filesystem::create_directories(*options.save + "/model.safetensors/in the way"); });
  EXPECT_TRUE(fails(run(options), {"model.safetensors"}));
  EXPECT_EQ(*findCheckpoint(*options.save), bundle.path("out/iter_0000003"));
}

// Nothing is left to do, and the checkpoint stays as it is.
TEST_F(ResumeTest, aTrainingThatIsDoneIsDone) {
  ASSERT_TRUE(isOk(run(makeOptions(3, "done"))));
  const auto files = filesOf("done", 3);
  TrainingOptions again = makeOptions(3, "done");
  again.load = again.save;
  const Result<TrainingSummary> summary = run(again);
  ASSERT_TRUE(isOk(summary));
  EXPECT_EQ(summary->steps, 0);
  EXPECT_EQ(filesOf("done", 3), files);
}

TEST_F(ResumeTest, otherSettingsAreRefused) {
  ASSERT_TRUE(isOk(run(makeOptions(3, "first"))));
  TrainingOptions other = makeOptions(6, "second");
  other.load = bundle.path("first");
  other.optimizer.numbers[0] = 0.8;
  other.seed = 5;
  EXPECT_TRUE(
      fails(run(other), {"first/iter_0000003: this run would not go on", "--adam-beta1: found 0.8, expected 0.9",
                         "--override-opt-param-scheduler", "--seed: found 5, expected 1234", "--finetune"}));
  other.seed = 1234;
  other.overridesOptimizer = true;
  EXPECT_TRUE(isOk(run(other)));
}

// The rates of steps to come may be others.
TEST_F(ResumeTest, ratesThatAreUsedCount) {
  TrainingOptions first = makeOptions(2, "first"), second = makeOptions(4, "second");
  first.optimizer.lrList = {0.1, 0.2};
  second.optimizer.lrList = {0.1, 0.2, 0.3, 0.4};
  second.load = first.save;
  ASSERT_TRUE(isOk(run(first)));
  EXPECT_TRUE(isOk(run(second)));
  second.save = bundle.path("third");
  second.optimizer.lrList[0] = 0.5;
  EXPECT_TRUE(fails(run(second), {"--lr-list: found 2 rates with the hash "}));
}

} // namespace
} // namespace mgc::test
