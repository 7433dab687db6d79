// The screen of mgrun while it trains: a progress bar when standard error is a terminal, else a line now and
// then; and the summary at the end.
#pragma once

#include "runtime/train/Training.h"

namespace mgc {

class RunScreen final : public TrainingObserver {
public:
  // `timersOf`: of --timing-log-option, "max", "minmax" or "all".
  RunScreen(int64_t logInterval, std::string timersOf);
  ~RunScreen() override; // leaves the line of the bar
  void began(const TrainingOptions &options, const Engine &engine, const std::string &data) override;
  void stepped(const TrainingStep &step) override;
  void evaluated(const EvaluationResult &evaluation) override;
  void noted(const std::string &note) override;

private:
  void drawBar(const TrainingStep &step);
  void showTimers(const TrainingStep &step);
  const int64_t logInterval_;
  const std::string timersOf_;
  bool isFirst_ = true; // the step that comes
  const bool isTerminal_;
  bool barShown_ = false;
  int64_t trainIters_ = 0, tokensPerStep_ = 0;
};

std::string describeSummary(const TrainingOptions &options, const TrainingSummary &summary);

} // namespace mgc
