// Offsets for buffers with lifetimes. In: sizes and half-open lifetimes [begin, end) over any ordered points.
// Out: an offset per buffer such that two buffers that live together do not overlap, and the peak.
#pragma once

#include "plan/Types.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <vector>

namespace mgc::memory {

inline constexpr int64_t kAlignment = plan::kAlignment; // bytes; offsets and sizes are rounded up to it

struct LiveBuffer {
  int64_t size = 0;           // bytes; a buffer of 0 bytes has offset 0 and takes no room
  int64_t begin = 0, end = 0; // lives at the points begin <= p < end
};

struct Assignment {
  std::vector<int64_t> offsets; // one per buffer
  int64_t peak = 0;             // bytes, a multiple of kAlignment
};

// Sizes are rounded up to kAlignment. An error for negative sizes, lifetimes that end before they begin, and
// sums that do not fit 64 bits.
Result<Assignment> solve(const std::vector<LiveBuffer> &buffers);

// The largest sum of (rounded) sizes that live at one point: no assignment has a lower peak. Sizes must be valid.
int64_t lowerBound(const std::vector<LiveBuffer> &buffers);

// Every offset is aligned and not negative, no two buffers that live together overlap, and all lie below the peak.
Status verify(const std::vector<LiveBuffer> &buffers, const Assignment &assignment);

} // namespace mgc::memory
