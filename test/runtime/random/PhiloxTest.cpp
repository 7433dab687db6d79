// The generator against Random123's known answers, and what is drawn with it.
#include "runtime/random/Philox.h"

#include <bit>
#include <gtest/gtest.h>
#include <set>
#include <vector>

using namespace mgc;

TEST(Philox, knownAnswers) {
  constexpr uint32_t ones = 0xFFFFFFFFu;
  static_assert(philox({0, 0, 0, 0}, {0, 0}) == PhiloxWords{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxWords{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (PhiloxWords{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Philox, namesHashAsFnv1a) {
  EXPECT_EQ(hashName(""), 0xCBF29CE484222325u);
  EXPECT_EQ(hashName("a"), 0xAF63DC4C8601EC8Cu);
  EXPECT_EQ(hashName("foobar"), 0x85944171F73967E8u);
}

TEST(Philox, dropoutKeysDiffer) {
  std::set<PhiloxKey> keys;
  for (uint64_t seed : {0u, 1u})
    for (uint64_t site : {uint64_t(0), hashName("attn"), ~uint64_t(0)})
      for (uint64_t instance : {0u, 1u, 2u})
        keys.insert(dropoutKey(seed, site, instance));
  EXPECT_EQ(keys.size(), 18u);
}

TEST(Philox, rangeEqualsSingleDraws) {
  const uint64_t name = hashName("wte");
  for (uint64_t begin : {uint64_t(0), uint64_t(3), (uint64_t(1) << 34) + 1})
    for (uint64_t count : {0u, 1u, 2u, 5u, 11u}) {
      std::vector<float> values(count + 1, 7);
      normalRange(5, name, begin, count, 1, values.data());
      for (uint64_t i = 0; i < count; ++i)
        EXPECT_EQ(values[i], normalAt(5, name, begin + i));
      EXPECT_EQ(values[count], 7);
    }
}

// Long ranges use another algorithm; some of their floats are close to the middle between two.
TEST(Philox, longRangesEqualSingleDraws) {
  const uint64_t name = hashName("wte"), begin = (uint64_t(1) << 33) + 2;
  for (double std : {1.0, 0.02, 0.0}) {
    std::vector<float> values(3'000'001);
    normalRange(9, name, begin, values.size(), std, values.data());
    int64_t different = 0;
    for (uint64_t i = 0; i < values.size(); ++i) {
      const double normal = detail::normalBlock(9, name, (begin + i) / 4)[(begin + i) % 4];
      different += std::bit_cast<uint32_t>(values[i]) != std::bit_cast<uint32_t>(static_cast<float>(std * normal));
    }
    EXPECT_EQ(different, 0) << std;
  }
}

TEST(Philox, drawsDependOnSeedNameAndIndex) {
  EXPECT_NE(normalAt(1, 2, 3), normalAt(2, 2, 3));
  EXPECT_NE(normalAt(1, 2, 3), normalAt(1, 3, 3));
  EXPECT_NE(normalAt(1, 2, 3), normalAt(1, 2, 4));
  EXPECT_NE(normalAt(1, 2, 3), normalAt(1, 2, 3 + (uint64_t(1) << 34)));
}

// Moments of n = 2^20 draws: standard errors are 1e-3 (mean), 1.4e-3 (variance), 1e-2 (fourth moment).
TEST(Philox, normalMoments) {
  const uint64_t n = 1 << 20;
  std::vector<float> values(n);
  normalRange(11, hashName("h.0.mlp.c_fc.weight"), 0, n, 2, values.data());
  double mean = 0, variance = 0, fourth = 0, neighbours = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double z = values[i] / 2.0;
    mean += z / n;
    variance += z * z / n;
    fourth += z * z * z * z / n;
    neighbours += i ? z * values[i - 1] / 2.0 / n : 0;
  }
  EXPECT_NEAR(mean, 0, 5e-3);
  EXPECT_NEAR(variance, 1, 7e-3);
  EXPECT_NEAR(fourth, 3, 5e-2);
  EXPECT_NEAR(neighbours, 0, 5e-3);
}
