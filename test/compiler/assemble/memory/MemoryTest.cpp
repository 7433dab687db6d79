// The solver against its verifier and lower bound on random lifetimes, and the verifier against broken assignments.
#include "compiler/assemble/memory/MemorySolver.h"

#include <ctime>
#include <gtest/gtest.h>
#include <random>

namespace mgc::memory {
namespace {

std::vector<LiveBuffer> randomBuffers(uint32_t seed, int64_t count, int64_t points, int64_t largest) {
  std::mt19937_64 random(seed);
  auto below = [&](int64_t bound) { return int64_t(random() % uint64_t(bound)); };
  std::vector<LiveBuffer> buffers;
  for (int64_t i = 0; i < count; ++i) {
    int64_t begin = below(points);
    buffers.push_back({below(largest + 1), begin, begin + 1 + below(std::max<int64_t>(1, points / 8))});
  }
  return buffers;
}

TEST(Memory, EmptyAndZeroSizes) {
  Result<Assignment> none = solve({});
  ASSERT_TRUE(none.isOk());
  EXPECT_EQ(none->peak, 0);
  std::vector<LiveBuffer> buffers = {{0, 0, 5}, {64, 3, 3}, {1, 0, 1}};
  Result<Assignment> found = solve(buffers);
  ASSERT_TRUE(found.isOk());
  EXPECT_EQ(found->peak, 64);
  EXPECT_TRUE(verify(buffers, *found).isOk());
}

TEST(Memory, EqualSizesReachTheLowerBound) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::vector<LiveBuffer> buffers = randomBuffers(seed, 100, 60, 0);
    for (LiveBuffer &buffer : buffers)
      buffer.size = 1000;
    Result<Assignment> found = solve(buffers);
    ASSERT_TRUE(found.isOk());
    ASSERT_TRUE(verify(buffers, *found).isOk());
    EXPECT_EQ(found->peak, lowerBound(buffers)) << "seed " << seed;
  }
}

TEST(Memory, RandomSweepIsValidAndNearTheLowerBound) {
  double worst = 0, sum = 0;
  int64_t cases = 0;
  for (int64_t count : {1, 2, 3, 10, 40, 200})
    for (int64_t points : {1, 4, 30, 200})
      for (uint32_t seed = 0; seed < 20; ++seed) {
        std::vector<LiveBuffer> buffers = randomBuffers(seed, count, points, 100000);
        Result<Assignment> found = solve(buffers);
        ASSERT_TRUE(found.isOk());
        Status status = verify(buffers, *found);
        ASSERT_TRUE(status.isOk()) << status.message();
        int64_t bound = lowerBound(buffers);
        ASSERT_GE(found->peak, bound);
        double ratio = bound ? double(found->peak) / double(bound) : 1;
        worst = std::max(worst, ratio);
        sum += ratio;
        ++cases;
      }
  RecordProperty("meanRatio", std::to_string(sum / double(cases)));
  std::printf("peak / lower bound over %ld cases: mean %.4f, worst %.4f\n", long(cases), sum / double(cases), worst);
  EXPECT_LT(sum / double(cases), 1.003);
  EXPECT_LT(worst, 1.14);
}

TEST(Memory, FiveThousandBuffersAreFast) {
  std::vector<LiveBuffer> buffers = randomBuffers(1, 5000, 3000, 1 << 20);
  std::clock_t start = std::clock(); // this process's time: other work on the machine does not count
  Result<Assignment> found = solve(buffers);
  double milliseconds = 1000.0 * double(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(found.isOk());
  std::printf("5000 buffers: %.1f ms, peak / lower bound %.4f\n", milliseconds,
              double(found->peak) / double(lowerBound(buffers)));
  EXPECT_TRUE(verify(buffers, *found).isOk());
#ifdef NDEBUG
  EXPECT_LT(milliseconds, 50);
#else
  EXPECT_LT(milliseconds, 500); // unoptimised or sanitized builds
#endif
}

TEST(Memory, SizesNeedMoreThan32Bits) {
  std::vector<LiveBuffer> buffers = {{int64_t(5) << 32, 0, 2}, {int64_t(3) << 32, 1, 3}, {int64_t(4) << 32, 2, 4}};
  Result<Assignment> found = solve(buffers);
  ASSERT_TRUE(found.isOk());
  EXPECT_TRUE(verify(buffers, *found).isOk());
  EXPECT_EQ(found->peak, int64_t(8) << 32);
}

TEST(Memory, RefusesBadProblems) {
  EXPECT_FALSE(solve({{-1, 0, 1}}).isOk());
  EXPECT_FALSE(solve({{1, 2, 1}}).isOk());
  EXPECT_FALSE(solve({{INT64_MAX - 10, 0, 1}}).isOk());
  EXPECT_FALSE(solve({{INT64_MAX / 2, 0, 1}, {INT64_MAX / 2, 5, 6}, {INT64_MAX / 2, 5, 6}}).isOk());
}

TEST(Memory, VerifyRefusesBrokenAssignments) {
  std::vector<LiveBuffer> buffers = {{100, 0, 2}, {100, 1, 3}, {100, 2, 4}};
  Assignment good{{0, 128, 0}, 256};
  EXPECT_TRUE(verify(buffers, good).isOk());
  for (Assignment bad : {Assignment{{0, 64, 0}, 256}, Assignment{{0, 128, 64}, 256}, Assignment{{0, 0, 128}, 256},
                         Assignment{{0, 130, 0}, 256}, Assignment{{0, -128, 0}, 256}, Assignment{{0, 256, 0}, 256},
                         Assignment{{0, 128}, 256}})
    EXPECT_FALSE(verify(buffers, bad).isOk());
}

} // namespace
} // namespace mgc::memory
