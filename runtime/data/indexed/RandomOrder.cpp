// See RandomOrder.h.
#include "runtime/data/indexed/RandomOrder.h"

#include <bit>
#include <numeric>

namespace mgc {

// Words are cut to the fewest bits that hold `most`, and drawn again where they are above it.
uint32_t NumpyRandom::upTo(uint32_t most) {
  const uint32_t mask = ~uint32_t(0) >> std::countl_zero(most);
  uint32_t word;
  do
    word = static_cast<uint32_t>(words_()) & mask;
  while (word > most);
  return word;
}

std::vector<int64_t> torchPermutation(int64_t size, uint64_t seed) {
  std::mt19937 words(static_cast<uint32_t>(seed));
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t(0));
  for (int64_t i = 0; i + 1 < size; ++i)
    std::swap(order[i], order[i + static_cast<int64_t>(words()) % (size - i)]);
  return order;
}

} // namespace mgc
