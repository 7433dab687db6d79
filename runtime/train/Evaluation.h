// Evaluation: the loss of the weights in training, on data that are not trained on, by the plan in the training plan's folder
// (docs/evaluation.md).
//   in:  the weights of an engine between two steps, batches of a split
//   out: the cross-entropy, mean over all tokens of the batches that count
#pragma once

#include "runtime/checkpoint/CopyWeights.h"
#include "runtime/exec/Engine.h"
#include "runtime/train/StepData.h"

namespace mgc {

// The plan in PLAN/evaluation, proved; an error where there is none, or one of another model or layout than `training`, whose
// parameters are expanded.
Result<plan::Plan> readEvaluationPlan(const std::string &folder, const plan::Plan &training);

class Evaluation {
public:
  // The references outlive the object. `options`: of its engine. An error: there are no data to evaluate on.
  static Result<std::unique_ptr<Evaluation>> open(const TrainingOptions &options, const TrainingStart &start,
                                                  const Engine &trained, plan::Plan plan, const EngineOptions &engine,
                                                  const DataReading &reading);

  // For people: the data of the split valid, and what part of them one evaluation reads.
  std::string describe() const;
  Engine &engine() { return *engine_; }
  bool has(Split split) const { return data_[size_t(split)].has_value(); }
  bool isDue(int64_t stepsDone) const { return stepsDone % options_.evalInterval == 0; }

  struct Outcome {
    EvaluationResult result; // complete unless it was interrupted or something failed
    bool isComplete = false;
    Status failure; // failure of this process's data; ok if another's failed
  };
  // All processes call it between the same two steps. An error: of the engine.
  Result<Outcome> run(Engine &trained, Split split, int64_t stepsDone, const Interrupt &interrupt);

private:
  Evaluation(const TrainingOptions &options, WeightCopier copier, std::unique_ptr<Engine> engine)
      : options_(options), copier_(std::move(copier)), engine_(std::move(engine)) {}
  int64_t firstBatch(Split split, int64_t stepsDone) const;
  Status copyWeights(Engine &trained);

  const TrainingOptions &options_;
  WeightCopier copier_;
  std::unique_ptr<Engine> engine_;
  std::array<std::optional<StepData>, kSplits.size()> data_; // by Split; that of training has none here
};

} // namespace mgc
