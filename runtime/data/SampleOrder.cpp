#include "runtime/data/SampleOrder.h"

#include "runtime/random/Philox.h"

#include <algorithm>
#include <bit>

namespace mgc {

// One pass of the network over [0, 4^bits).
static uint64_t permute(uint64_t value, int bits, PhiloxKey key) {
  constexpr uint32_t kRounds = 8;
  const uint64_t mask = (uint64_t(1) << bits) - 1;
  uint64_t left = value >> bits, right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    uint64_t mixed = left ^ (philox({lowWord(right), round, 0, 0}, key)[0] & mask);
    left = right;
    right = mixed;
  }
  return left << bits | right;
}

int64_t shuffledSample(uint64_t seed, int64_t epoch, int64_t position, int64_t samples) {
  const uint64_t domain = hashName("sample order"), number = uint64_t(epoch);
  const PhiloxWords words =
      philox({lowWord(domain), highWord(domain), lowWord(number), highWord(number)}, philoxKey(seed));
  const int bits = std::max(1, (int(std::bit_width(uint64_t(samples - 1))) + 1) / 2); // bits of half a number
  uint64_t value = uint64_t(position);
  do // a permutation's cycle through `position` comes back inside at the latest at `position` itself
    value = permute(value, bits, {words[0], words[1]});
  while (value >= uint64_t(samples));
  return int64_t(value);
}

} // namespace mgc
