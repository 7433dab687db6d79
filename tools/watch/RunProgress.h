// RunProgress: how far a training is.
//   in:  its length, its steps, and the time: seconds of any clock
//   out: words of a line of progress
#pragma once

#include "runtime/train/Training.h"

#include <deque>

namespace mgc::tools {

class RunProgress {
public:
  // `samples`: of the whole training. Later calls, of the run's later parts, change nothing.
  void begin(double now, int64_t samples, int64_t sequenceLength);
  void stepped(const TrainingStep &step);
  // "elapsed 0:01:12  left 0:10:03": since the run began; until the training's last step, at the median pace of the recent steps,
  // once there is one after the first, which warms up. Evaluations and saves that are still to come are not in the time that is left.
  std::string times(double now) const;
  std::string tokens() const; // "4.10 M tokens": read since the training began
  std::string text(double now) const { return times(now) + "  " + tokens(); }

private:
  std::optional<double> began_;
  int64_t samples_ = 0, sequenceLength_ = 0;
  int64_t done_ = 0; // samples
  std::optional<int64_t> firstStep_;
  std::deque<double> recent_; // seconds of a sample, of the last steps
};

// "0:01:12", "3 d 04:05:06"
std::string durationText(double seconds);

} // namespace mgc::tools
