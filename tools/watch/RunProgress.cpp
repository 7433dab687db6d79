// See RunProgress.h.
#include "tools/watch/RunProgress.h"

#include "runtime/base/NumberText.h"

#include <algorithm>
#include <cmath>

namespace mgc::tools {

namespace {

constexpr size_t kRecentSteps = 32;

double medianOf(const std::deque<double> &values) {
  std::vector<double> sorted(values.begin(), values.end());
  const auto median = sorted.begin() + (std::ssize(sorted) - 1) / 2;
  std::ranges::nth_element(sorted, median);
  return *median;
}

} // namespace

void RunProgress::begin(double now, int64_t samples, int64_t sequenceLength) {
  if (began_)
    return;
  began_ = now, samples_ = samples, sequenceLength_ = sequenceLength;
}

void RunProgress::stepped(const TrainingStep &step) {
  if (!firstStep_)
    firstStep_ = step.step;
  if (step.samples > done_ && step.step > *firstStep_)
    recent_.push_back(step.seconds / static_cast<double>(step.samples - done_));
  done_ = step.samples;
  if (recent_.size() > kRecentSteps)
    recent_.pop_front();
}

std::string RunProgress::times(double now) const {
  std::string text = "elapsed " + durationText(now - began_.value_or(now));
  if (!recent_.empty())
    text += "  left " + durationText(medianOf(recent_) * static_cast<double>(std::max<int64_t>(samples_ - done_, 0)));
  return text;
}

std::string RunProgress::tokens() const {
  return countText(static_cast<double>(done_) * static_cast<double>(sequenceLength_)) + " tokens";
}

std::string durationText(double seconds) {
  constexpr double kMost = 1e10; // longer than any run; whole numbers hold it
  const auto whole = static_cast<int64_t>(std::llround(std::clamp(seconds, 0.0, kMost)));
  const int64_t days = whole / 86400, hours = whole / 3600 % 24, minutes = whole / 60 % 60;
  return days > 0 ? fmt::format("{} d {:02}:{:02}:{:02}", days, hours, minutes, whole % 60)
                  : fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
}

} // namespace mgc::tools
