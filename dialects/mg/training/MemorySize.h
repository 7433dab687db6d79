// The size that --memory gives: bytes, or a share of the memory of a device.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string_view>

namespace mgc {

struct MemorySize {
  int64_t bytes = 0; // 0: it is a share
  double share = 0;
};

// "80GB", "22GiB", "1.5 TB", "90%", "1000000" (bytes). Error: what is not such a size, 0, negative, more than 2^62 bytes or 100 %.
Result<MemorySize> parseMemorySize(std::string_view text);

} // namespace mgc
