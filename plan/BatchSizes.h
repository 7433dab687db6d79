// BatchSizes: how many samples each step of a training takes: one number, or one that grows (--rampup-batch-size).
#pragma once

#include "runtime/base/Status.h"

#include <optional>
#include <span>
#include <vector>

namespace mgc::plan {

// Megatron-LM's --rampup-batch-size START INCREMENT SAMPLES: the batch begins with `start` samples and gets `increment` more, in
// equal parts of the first `samples` samples of the training, until it is the global batch.
struct BatchRampup {
  int64_t start = 0, increment = 0, samples = 0;
};

// The most samples of a training: a double counts so many one by one.
inline constexpr int64_t kMostSamples = int64_t(1) << 53;

class BatchSizes {
public:
  // Steps of one size, up to the next range.
  struct Range {
    int64_t firstStep = 0, firstSample = 0, size = 0;
  };

  explicit BatchSizes(int64_t size) : ranges_{{0, 0, size}} {}
  // Up to batches of `size`. An error, with the flag, where they do not lead there.
  static Result<BatchSizes> growing(const BatchRampup &rampup, int64_t size);

  // Ranges of steps, in their order; neighbours differ in size.
  std::span<const Range> ranges() const { return ranges_; }
  const Range &rangeOf(int64_t step) const;
  // The first step after this one that has another size; none: all have the same.
  std::optional<int64_t> nextChange(int64_t step) const;
  // Samples that the steps before this one take.
  int64_t samplesBefore(int64_t step) const;
  // The steps for which so many samples are enough; what is left of them is not trained on.
  int64_t stepsWithin(int64_t samples) const;

private:
  std::vector<Range> ranges_;
};

} // namespace mgc::plan
