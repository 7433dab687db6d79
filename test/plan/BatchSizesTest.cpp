// Batches that grow, against Megatron-LM's RampupBatchsizeNumMicroBatchesCalculator, asked before each step.
#include "plan/BatchSizes.h"

#include "test/runtime/TempDir.h"

#include <gtest/gtest.h>

namespace mgc::plan::test {
namespace {

using mgc::test::fails, mgc::test::isOk;

// Its rule for a step before which `consumed` samples have been taken.
int64_t sizeByMegatron(const BatchRampup &rampup, int64_t size, int64_t consumed) {
  if (consumed > rampup.samples)
    return size;
  const int64_t increments = (size - rampup.start) / rampup.increment;
  const double samplesPerIncrement = double(rampup.samples) / double(increments);
  return rampup.start + int64_t(double(consumed) / samplesPerIncrement) * rampup.increment;
}

TEST(BatchSizes, ofOneSize) {
  const BatchSizes sizes(8);
  EXPECT_EQ(sizes.ranges().size(), 1u);
  EXPECT_EQ(sizes.samplesBefore(5), 40);
  EXPECT_EQ(sizes.stepsWithin(47), 5);
  EXPECT_EQ(sizes.stepsWithin(7), 0);
}

TEST(BatchSizes, growAsMegatronsDo) {
  const std::pair<BatchRampup, int64_t> cases[] = {{{2, 2, 20}, 8},   {{16, 16, 1000}, 64},  {{1, 1, 7}, 5},
                                                   {{4, 4, 1}, 32}, // all in the first batch
                                                   {{3, 7, 100}, 24}, {{32, 96, 4001}, 320}, {{1, 3, 1000000}, 100}};
  const Result<BatchSizes> longest = BatchSizes::growing({1, 1, int64_t(1) << 53}, 1000);
  ASSERT_TRUE(isOk(longest));
  EXPECT_EQ(longest->ranges().size(), 1000u);
  for (const auto &[rampup, size] : cases) {
    SCOPED_TRACE(fmt::format("{} {} {} to {}", rampup.start, rampup.increment, rampup.samples, size));
    const Result<BatchSizes> sizes = BatchSizes::growing(rampup, size);
    ASSERT_TRUE(isOk(sizes));
    int64_t consumed = 0, before = 0;
    size_t changes = 1;
    for (int64_t step = 0; consumed <= rampup.samples + 3 * size; ++step) {
      const int64_t expected = sizeByMegatron(rampup, size, consumed);
      ASSERT_EQ(sizes->rangeOf(step).size, expected) << step;
      ASSERT_EQ(sizes->samplesBefore(step), consumed) << step;
      ASSERT_EQ(sizes->stepsWithin(consumed), step);
      if (consumed > 0)
        ASSERT_EQ(sizes->stepsWithin(consumed - 1), step - 1);
      changes += step > 0 && expected != before;
      before = expected, consumed += expected;
    }
    EXPECT_EQ(sizes->ranges().size(), changes);
    EXPECT_EQ(sizes->ranges().back().size, size);
  }
}

TEST(BatchSizes, whatDoesNotLeadToTheGlobalBatch) {
  const auto messageOf = [](const BatchRampup &rampup) { return BatchSizes::growing(rampup, 8).status(); };
  EXPECT_TRUE(fails(messageOf({2, 4, 100}), {"--rampup-batch-size 2 4 100", "do not lead from 2", "divisor of 6"}));
  EXPECT_TRUE(fails(messageOf({8, 1, 100}), {"not below the global batch, 8"}));
  EXPECT_TRUE(fails(messageOf({0, 1, 100}), {"1 or more"}));
  EXPECT_TRUE(fails(messageOf({2, 0, 100}), {"1 or more"}));
  EXPECT_TRUE(fails(messageOf({2, 2, 0}), {"1 or more"}));
  EXPECT_TRUE(fails(messageOf({2, 2, INT64_MAX}), {"at most 9007199254740992 samples"}));
}

} // namespace
} // namespace mgc::plan::test
