// The page of a run, written when it ends: what its plan says, and what was measured.
#pragma once

#include "tools/watch/RunCurves.h"

namespace mgc::tools {

// Tells another observer all that it hears, and keeps the curves. Where ranks are processes, rank 0 writes the page of all.
class RunPage final : public TrainingObserver {
public:
  // The other must outlive it. A page is written where the options of the run name one.
  explicit RunPage(TrainingObserver &screen) : screen_(screen) {}
  void continued(int64_t step) override;
  void began(const TrainingOptions &options, const Engine &engine, const std::string &data) override;
  void started(const std::string &activity) override { screen_.started(activity); }
  void stepped(const TrainingStep &step) override;
  void evaluated(const EvaluationResult &evaluation) override;
  void failed(const Status &error) override { screen_.failed(error); }
  void noted(const std::string &note) override { screen_.noted(note); }
  Status ended(const TrainingSummary &summary, const Engine &engine, Processes *others) override;

private:
  Status readPlan(const std::string &folder);

  TrainingObserver &screen_;
  std::string path_, data_; // path: empty where no page is asked for, or another process writes it
  bool isMeasured_ = false; // a page is asked for
  nlohmann::json page_;     // page of the plan
  Status read_;             // whether it is there
  RunCurves curves_;
  int64_t continuedAt_ = 0;      // step with which the run goes on; 0: it begins a training
  std::string lacks_;            // why the curves lack the steps before that one; empty: they do not
  std::optional<int64_t> first_; // step of this run
  int64_t done_ = 0;             // steps of this run
};

} // namespace mgc::tools
