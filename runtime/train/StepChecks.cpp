// See StepChecks.h.
#include "runtime/train/StepChecks.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace mgc {

bool LargeValues::isTooLarge(double value) {
  value = std::abs(value);
  if (!std::isfinite(value))
    return false;
  if (history_.seen == kSamples)
    return value >= kFactor * history_.largest;
  ++history_.seen;
  history_.largest = std::max(history_.largest, value);
  return false;
}

static std::string describeLarge(const char *what, double value, const LargeValues &values) {
  return fmt::format("{} {}: at least {} times the largest of the first {} steps, {}", what, value,
                     LargeValues::kFactor, LargeValues::kSamples, values.largest());
}

void StepChecks::keepIn(CheckpointRecord &record) const {
  if (options_.spikyLoss)
    record.losses = losses_.history();
  if (options_.largeGradients)
    record.norms = norms_.history();
}

void StepChecks::goOnFrom(const CheckpointRecord &record) {
  losses_.goOnFrom(record.losses.value_or(ValueHistory()));
  norms_.goOnFrom(record.norms.value_or(ValueHistory()));
}

bool StepChecks::judge(const StepResult &result) {
  isFinite_ = std::isfinite(result.loss) && std::isfinite(result.gradientNorm);
  const bool isSpiky = options_.spikyLoss && losses_.isTooLarge(result.loss);
  const bool isLarge = options_.largeGradients && norms_.isTooLarge(result.gradientNorm);
  finding_.clear();
  if (options_.finite && !isFinite_)
    finding_ = fmt::format("loss {}, gradient norm {}: not finite", result.loss, result.gradientNorm);
  else if (isSpiky)
    finding_ = describeLarge("loss", result.loss, losses_);
  else if (isLarge)
    finding_ = describeLarge("gradient norm", result.gradientNorm, norms_);
  inARow_ = finding_.empty() ? 0 : inARow_ + 1;
  return finding_.empty();
}

} // namespace mgc
