#include "plan/RelativeBuckets.h"

#include <gtest/gtest.h>

#include <vector>

namespace mgc::plan {
namespace {

std::vector<int32_t> bucketsOf(int64_t buckets, int64_t maxDistance, bool causal) {
  std::vector<int32_t> table(distancesOf(maxDistance));
  bucketsOfDistances(buckets, maxDistance, causal, table);
  return table;
}

// The distances from which on a bucket is another, from the query away.
std::vector<int64_t> firstDistances(const std::vector<int32_t> &table, int64_t maxDistance, int64_t direction) {
  std::vector<int64_t> first = {0};
  for (int64_t distance = 1; distance <= maxDistance; ++distance) {
    const int32_t before = table[maxDistance + direction * (distance - 1)],
                  now = table[maxDistance + direction * distance];
    EXPECT_TRUE(distance == 1 || now == before || now == before + 1) << distance;
    if (now != before)
      first.push_back(distance);
  }
  return first;
}

// The sizes of T5: 16 exact buckets, then 16 whose borders grow by a factor of 8^(1/16) each.
TEST(RelativeBuckets, causal) {
  const std::vector<int32_t> table = bucketsOf(32, 128, true);
  EXPECT_EQ(firstDistances(table, 128, -1),
            (std::vector<int64_t>{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                  16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}));
  EXPECT_EQ(table.front(), 31);
  EXPECT_EQ(table[128 + 1], 0);
  EXPECT_EQ(table.back(), 0);
}

// Both directions have 16 buckets, of which 8 are exact.
TEST(RelativeBuckets, bidirectional) {
  const std::vector<int32_t> table = bucketsOf(32, 128, false);
  const std::vector<int64_t> first = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  EXPECT_EQ(firstDistances(table, 128, -1), first);
  EXPECT_EQ(firstDistances(table, 128, 1), first);
  EXPECT_EQ(table.front(), 15);
  EXPECT_EQ(table[128], 0);
  EXPECT_EQ(table[128 + 1], 17);
  EXPECT_EQ(table.back(), 31);
}

TEST(RelativeBuckets, ofTheHeadersExample) {
  EXPECT_EQ(firstDistances(bucketsOf(8, 32, true), 32, -1), (std::vector<int64_t>{0, 1, 2, 3, 4, 7, 12, 20}));
}

// Leaves the last bucket of an odd number unused.
TEST(RelativeBuckets, oddNumbers) {
  const std::vector<int32_t> table = bucketsOf(5, 2, false);
  EXPECT_EQ(table, (std::vector<int32_t>{1, 1, 0, 3, 3}));
}

TEST(RelativeBuckets, errors) {
  EXPECT_TRUE(verifyBuckets(2, 2, true).isOk());
  EXPECT_TRUE(verifyBuckets(4, 2, false).isOk());
  EXPECT_EQ(verifyBuckets(1, 128, true).message(), "1 buckets; expected 2 or more");
  EXPECT_EQ(verifyBuckets(3, 128, false).message(), "3 buckets; expected 4 or more");
  EXPECT_EQ(verifyBuckets(32, 16, true).message(),
            "32 buckets up to a distance of 16; expected a distance from 17 to 65536");
  EXPECT_TRUE(verifyBuckets(32, 65536, false).isOk());
  EXPECT_FALSE(verifyBuckets(32, 65537, false).isOk());
}

} // namespace
} // namespace mgc::plan
