// See BatchSizes.h. Sizes are those of Megatron-LM's RampupBatchsizeNumMicroBatchesCalculator, whose division is one of doubles.
#include "plan/BatchSizes.h"

#include <algorithm>

namespace mgc::plan {

namespace {

Status verify(const BatchRampup &rampup, int64_t size) {
  const auto &[start, increment, samples] = rampup;
  const auto refuse = [&](const std::string &what) {
    return errorf("--rampup-batch-size {} {} {}: {}", start, increment, samples, what);
  };
  if (start < 1 || increment < 1 || samples < 1)
    return refuse("expected a first batch, an increment and a number of samples of 1 or more each");
  if (samples > kMostSamples)
    return refuse(fmt::format("expected at most {} samples", kMostSamples));
  if (start >= size)
    return refuse(fmt::format("the first batch is not below the global batch, {}; expected less", size));
  if ((size - start) % increment != 0)
    return refuse(fmt::format("increments of {} do not lead from {} to the global batch, {}; expected a divisor of {}",
                              increment, start, size, size - start));
  return Status::ok();
}

// The increments that a batch has which begins with this sample.
class Growth {
public:
  Growth(const BatchRampup &rampup, int64_t size)
      : samples_(rampup.samples), increments_((size - rampup.start) / rampup.increment),
        samplesEach_(static_cast<double>(samples_) / static_cast<double>(increments_)) {}
  int64_t increments() const { return increments_; }
  int64_t at(int64_t sample) const {
    return sample > samples_ ? increments_
                             : std::min(increments_, static_cast<int64_t>(static_cast<double>(sample) / samplesEach_));
  }
  // Batches of `size` samples from `first` on, which has `now` increments, up to the first that has more.
  int64_t batchesUntilMore(int64_t first, int64_t size, int64_t now) const {
    const double end = samplesEach_ * static_cast<double>(now + 1);
    auto count =
        std::max<int64_t>(1, static_cast<int64_t>((end - static_cast<double>(first)) / static_cast<double>(size)));
    while (count > 1 && at(first + (count - 1) * size) > now)
      --count;
    while (at(first + count * size) <= now)
      ++count;
    return count;
  }

private:
  int64_t samples_, increments_;
  double samplesEach_;
};

} // namespace

Result<BatchSizes> BatchSizes::growing(const BatchRampup &rampup, int64_t size) {
  MGC_TRY(verify(rampup, size));
  const Growth growth(rampup, size);
  BatchSizes sizes(rampup.start);
  for (int64_t now = 0; now < growth.increments();) {
    const auto [step, first, batch] = sizes.ranges_.back();
    const int64_t count = growth.batchesUntilMore(first, batch, now), next = first + count * batch;
    now = growth.at(next);
    sizes.ranges_.push_back({step + count, next, rampup.start + now * rampup.increment});
  }
  return sizes;
}

const BatchSizes::Range &BatchSizes::rangeOf(int64_t step) const {
  const auto behind = std::ranges::upper_bound(ranges_, step, {}, &Range::firstStep);
  return *std::prev(behind);
}

std::optional<int64_t> BatchSizes::nextChange(int64_t step) const {
  const auto behind = std::ranges::upper_bound(ranges_, step, {}, &Range::firstStep);
  return behind == ranges_.end() ? std::nullopt : std::optional(behind->firstStep);
}

int64_t BatchSizes::samplesBefore(int64_t step) const {
  const Range &range = rangeOf(step);
  return range.firstSample + (step - range.firstStep) * range.size;
}

int64_t BatchSizes::stepsWithin(int64_t samples) const {
  const auto behind = std::ranges::upper_bound(ranges_, samples, {}, &Range::firstSample);
  const Range &range = *std::prev(behind);
  return range.firstStep + (samples - range.firstSample) / range.size;
}

} // namespace mgc::plan
