// The screen of mgrun while it trains: a progress bar when standard error is a terminal, else a line now and then; and the summary
// at the end. Where nothing has been told for a while, as in long steps, a line says what is in progress.
#pragma once

#include "tools/watch/Heartbeat.h"
#include "tools/watch/RunProgress.h"

#include <cstdio>

namespace mgc {

class RunScreen final : public TrainingObserver {
public:
  static constexpr std::chrono::milliseconds kLongestSilence{30'000};
  // `timersOf`: of --timing-log-option, "max", "minmax" or "all".
  RunScreen(int64_t logInterval, std::string timersOf, std::FILE *screen = stderr,
            std::chrono::milliseconds longestSilence = kLongestSilence);
  ~RunScreen() override; // leaves the line of the bar
  void continued(int64_t step) override { done_ = step; }
  void began(const TrainingOptions &options, const Engine &engine, const std::string &data) override;
  void started(const std::string &activity) override;
  void stepped(const TrainingStep &step) override;
  void evaluated(const EvaluationResult &evaluation) override;
  void failed(const Status &error) override;
  void noted(const std::string &note) override;

private:
  using Clock = tools::Heartbeat::Clock;
  void beat();
  void drawBar(const std::string &more);
  void showTimers(const TrainingStep &step);
  std::string inProgress() const;
  template <typename... Args> void tell(fmt::format_string<Args...> format, Args &&...args);

  const int64_t logInterval_;
  const std::string timersOf_;
  std::FILE *const screen_;
  const bool isTerminal_;
  bool isFirst_ = true; // the step that comes
  bool barShown_ = false, isOver_ = false;
  int64_t trainIters_ = 0, tokensPerStep_ = 0;
  tools::RunProgress progress_;
  std::string activity_;            // in progress; empty: between two
  Clock::time_point activitySince_; // and since when
  std::time_t activityBegan_ = 0;   // the same on the wall
  int64_t done_ = 0;                // steps of the training
  std::string details_, lastStep_;  // texts of the last step: behind the bar, and on a line of its own
  bool isLastShown_ = true;
  tools::Heartbeat heartbeat_; // last: ends before what it shows
};

std::string describeSummary(const TrainingOptions &options, const TrainingSummary &summary);

} // namespace mgc
