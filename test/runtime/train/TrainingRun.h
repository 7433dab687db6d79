// Trainings of tests: options of a short one, an observer that keeps what it is told, tensors of what was saved.
#pragma once

#include "runtime/io/Safetensors.h"
#include "runtime/train/Training.h"
#include "test/runtime/exec/Bundle.h"

#include <fstream>

namespace mgc::test {

struct Recorder final : TrainingObserver {
  std::vector<TrainingStep> steps;
  std::vector<std::string> notes;
  std::function<void(const TrainingStep &)> onStep;
  void noted(const std::string &note) override { notes.push_back(note); }
  const Engine *engine = nullptr; // while the training runs
  void began(const TrainingOptions &, const Engine &running, const std::string &) override { engine = &running; }
  void stepped(const TrainingStep &step) override {
    steps.push_back(step);
    if (onStep)
      onStep(step);
  }
};

inline std::string write(const std::string &path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
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
  std::vector<float> values(tensor ? tensor->elements() : 0);
  if (tensor)
    convertToF32(*tensor, 0, tensor->elements(), values.data());
  return values;
}

} // namespace mgc::test
