// Limits of a plan's numbers that a layout must keep too.
#pragma once

#include <cstdint>

namespace mgc::plan {

inline constexpr int64_t kMaxStepTokens = int64_t(1) << 40; // globalBatchSize * sequenceLength

} // namespace mgc::plan
