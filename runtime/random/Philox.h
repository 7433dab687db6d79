// Counter-based random numbers: the same word for the same (key, counter) on every rank, layout and machine.
//   in:  a 64-bit key and a 128-bit counter that name one draw: (seed; what is drawn; global index of
//        the element)
//   out: four uniform 32-bit words, or normal floats made from them
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace mgc {

using PhiloxWords = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr uint32_t lowWord(uint64_t value) { return static_cast<uint32_t>(value); }
constexpr uint32_t highWord(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
constexpr PhiloxKey philoxKey(uint64_t value) { return {lowWord(value), highWord(value)}; }

inline constexpr PhiloxKey kPhiloxFactors = {0xD2511F53u, 0xCD9E8D57u};
inline constexpr PhiloxKey kPhiloxKeySteps = {0x9E3779B9u, 0xBB67AE85u};

// Ten rounds of the Philox bijection.
constexpr PhiloxWords philox(PhiloxWords counter, PhiloxKey key) {
  uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t(kPhiloxFactors[0]) * x0, product1 = uint64_t(kPhiloxFactors[1]) * x2;
    x0 = highWord(product1) ^ x1 ^ k0;
    x1 = lowWord(product1);
    x2 = highWord(product0) ^ x3 ^ k1;
    x3 = lowWord(product0);
    k0 += kPhiloxKeySteps[0];
    k1 += kPhiloxKeySteps[1];
  }
  return {x0, x1, x2, x3};
}

// The key of one dropout: the generator applied to (site, instance) under the seed. The words that dropout
// then draws have as counter the global coordinates of the element.
constexpr PhiloxKey dropoutKey(uint64_t seed, uint64_t site, uint64_t instance) {
  const PhiloxWords words =
      philox({lowWord(site), highWord(site), lowWord(instance), highWord(instance)}, philoxKey(seed));
  return {words[0], words[1]};
}

// An element is kept when its word is at least this: probability p in [0, 1] of being dropped.
constexpr uint64_t dropoutThreshold(double p) { return static_cast<uint64_t>(p * 4294967296.0 + 0.5); }

// FNV-1a, 64 bits: names as numbers.
constexpr uint64_t hashName(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

namespace detail {

inline constexpr double kTurn = 6.283185307179586476925;

// At the middle of 2^32 cells of (0, 1), so that the logarithm is finite and no normal is beyond 6.77.
constexpr double uniform(uint32_t word) { return (word + 0.5) * (1.0 / 4294967296.0); }

// Four independent standard normals from four words: Box-Muller, twice.
inline std::array<double, 4> boxMuller(PhiloxWords words) {
  std::array<double, 4> normals;
  for (int pair = 0; pair < 2; ++pair) {
    const double radius = std::sqrt(-2.0 * std::log(uniform(words[2 * pair])));
    const double angle = kTurn * uniform(words[2 * pair + 1]);
    normals[2 * pair] = radius * std::cos(angle);
    normals[2 * pair + 1] = radius * std::sin(angle);
  }
  return normals;
}

constexpr PhiloxWords normalWords(uint64_t seed, uint64_t nameHash, uint64_t block) {
  return philox({lowWord(block), highWord(block), lowWord(nameHash), highWord(nameHash)}, philoxKey(seed));
}

// Elements 4 * block ... 4 * block + 3 of the named tensor.
inline std::array<double, 4> normalBlock(uint64_t seed, uint64_t nameHash, uint64_t block) {
  return boxMuller(normalWords(seed, nameHash, block));
}

} // namespace detail

// Standard normal of element `index` of the tensor named by `nameHash`.
inline float normalAt(uint64_t seed, uint64_t nameHash, uint64_t index) {
  return static_cast<float>(detail::normalBlock(seed, nameHash, index / 4)[index % 4]);
}

// out[i] = std * the normal of element begin + i, for i in [0, count).
void normalRange(uint64_t seed, uint64_t nameHash, uint64_t begin, uint64_t count, double std, float *out);

} // namespace mgc
