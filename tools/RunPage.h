// The page of a run, written when it ends: what its plan says, and what was measured.
#pragma once

#include "runtime/train/Training.h"

#include <nlohmann/json.hpp>

namespace mgc::tools {

// Tells another observer all that it hears, and remembers the steps.
class RunPage final : public TrainingObserver {
public:
  // The other must outlive it. A page is written where the options of the run name one.
  explicit RunPage(TrainingObserver &screen) : screen_(screen) {}
  void began(const TrainingOptions &options, const Engine &engine, const std::string &data) override;
  void stepped(const TrainingStep &step) override;
  void evaluated(const EvaluationResult &evaluation) override { screen_.evaluated(evaluation); }
  void noted(const std::string &note) override { screen_.noted(note); }
  Status ended(const TrainingSummary &summary, const Engine &engine) override;

private:
  Status readPlan(const std::string &folder);

  TrainingObserver &screen_;
  std::string path_, data_;
  nlohmann::json page_;            // page of the plan
  Status read_;                    // whether it is there
  std::vector<std::string> lines_; // lines of the log: each stride_-th step
  std::optional<int64_t> first_;   // step of this run
  int64_t stride_ = 1;
};

} // namespace mgc::tools
