// The orders that NumPy and PyTorch draw, to the element: indices of Megatron-LM are made with them.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace mgc {

// numpy.random.RandomState(seed): shuffle() continues from the state that the last one left.
class NumpyRandom {
public:
  explicit NumpyRandom(uint32_t seed) : words_(seed) {}

  // At most 2^32 values.
  template <typename T> void shuffle(std::span<T> values) {
    for (auto i = static_cast<int64_t>(values.size()) - 1; i > 0; --i)
      std::swap(values[static_cast<size_t>(i)], values[upTo(static_cast<uint32_t>(i))]);
  }

private:
  uint32_t upTo(uint32_t most); // evenly from 0 to most
  std::mt19937 words_;
};

// torch.randperm(size) after manual_seed(seed), of at most so many elements: those of more it draws from 64 bits.
inline constexpr int64_t kMostPermuted = (int64_t(1) << 32) / 20 - 1;
std::vector<int64_t> torchPermutation(int64_t size, uint64_t seed);

} // namespace mgc
