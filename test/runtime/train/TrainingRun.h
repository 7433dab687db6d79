// Trainings of tests: a fixture of a short one, an observer that keeps what it is told, tensors of what was saved.
#pragma once

#include "runtime/train/Training.h"
#include "test/runtime/TensorFiles.h"
#include "test/runtime/exec/Bundle.h"

namespace mgc::test {

struct Recorder final : TrainingObserver {
  std::vector<TrainingStep> steps;
  std::vector<std::string> notes;
  std::function<void(const TrainingStep &)> onStep;
  void noted(const std::string &note) override { notes.push_back(note); }
  const Engine *engine = nullptr; // while the training runs
  std::string where;
  void began(const TrainingOptions &, const Engine &running, const std::string &) override {
    engine = &running;
    where = running.whereRanksAre();
  }
  void stepped(const TrainingStep &step) override {
    steps.push_back(step);
    if (onStep)
      onStep(step);
  }
};

inline std::vector<double> lossesOf(const Recorder &recorder) {
  std::vector<double> losses;
  for (const TrainingStep &step : recorder.steps)
    losses.push_back(step.result.loss);
  return losses;
}

inline TrainingOptions makeOptions(const Bundle &bundle) {
  TrainingOptions options;
  options.plan = bundle.folder();
  options.trainIters = 4;
  options.optimizer.lr = 0.01;
  options.optimizer.lrDecayStyle = "constant";
  options.threads = 1;
  options.poison = true;
  options.savesWeightsAlone = true; // ResumeTest.cpp
  return options;
}

inline std::vector<float> tensorOf(const std::string &path, const std::string &name) {
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(isOk(checkpoint));
  const TensorView *tensor = checkpoint.isOk() ? checkpoint->find(name) : nullptr;
  EXPECT_NE(tensor, nullptr);
  return tensor ? floatsOf(*tensor) : std::vector<float>();
}

// Four steps of the two-stage plan; a test changes the options before it runs them, as often as it wants.
class Training : public testing::Test {
protected:
  Result<TrainingSummary> run() { return train(options, recorder, interrupt); }
  // Calls body() after the step of this number.
  void afterStep(int64_t number, std::function<void()> body) {
    recorder.onStep = [=](const TrainingStep &step) {
      if (step.step == number)
        body();
    };
  }

  const Bundle bundle;
  TrainingOptions options = makeOptions(bundle);
  Recorder recorder;
  Interrupt interrupt;
};

} // namespace mgc::test
