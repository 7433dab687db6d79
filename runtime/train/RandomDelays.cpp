// See RandomDelays.h.
#include "runtime/train/RandomDelays.h"

#include <chrono>
#include <string_view>
#include <thread>

namespace mgc {

std::function<Status(const ExecutionPlace &)> randomDelays(uint64_t seed) {
  return [seed](const ExecutionPlace &place) {
    uint64_t key = seed;
    const uint64_t parts[] = {uint64_t(place.rank), uint64_t(place.step), uint64_t(place.microbatch),
                              std::hash<std::string_view>()(place.chunk),
                              std::hash<std::string_view>()(place.instruction)};
    for (uint64_t part : parts)
      key = (key ^ part) * 0x9E3779B97F4A7C15u, key ^= key >> 29;
    if (key % 16 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(key / 16 % 500));
    return Status::ok();
  };
}

} // namespace mgc
