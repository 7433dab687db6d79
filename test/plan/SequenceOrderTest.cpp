#include "plan/SequenceOrder.h"

#include <gtest/gtest.h>
#include <vector>

namespace mgc::plan {
namespace {

std::vector<int64_t> order(int64_t size, int64_t zigzag) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < size; ++i)
    positions.push_back(positionAt(i, size, zigzag));
  return positions;
}

TEST(SequenceOrder, Ascends) { EXPECT_EQ(order(5, 1), (std::vector<int64_t>{0, 1, 2, 3, 4})); }

TEST(SequenceOrder, PutsAChunkBesideItsMirrorImage) {
  EXPECT_EQ(order(8, 2), (std::vector<int64_t>{0, 1, 6, 7, 2, 3, 4, 5}));
  EXPECT_EQ(order(6, 3), (std::vector<int64_t>{0, 5, 1, 4, 2, 3}));
}

TEST(SequenceOrder, RunsAreChunks) {
  EXPECT_EQ(runAt(3, 8, 2).position, 7);
  EXPECT_EQ(runAt(3, 8, 2).count, 1);
  EXPECT_EQ(runAt(4, 8, 2).position, 2);
  EXPECT_EQ(runAt(4, 8, 2).count, 2);
  EXPECT_EQ(runAt(3, 8, 1).count, 5);
}

TEST(SequenceOrder,
     GroupsOfNeighboursHoldWhatRanksOfAShorterRingWould) { // zigzag 2: 0 .. 5, 18 .. 23 | 6 .. 17
  const auto positions = [](int64_t group, int64_t zigzag) {
    std::vector<std::pair<int64_t, int64_t>> runs;
    for (const OrderRun &run : positionsOfPart(group, /*parts=*/2, /*size=*/24, zigzag))
      runs.emplace_back(run.position, run.count);
    return runs;
  };
  for (int64_t ranks : {4, 6, 12})
    for (int64_t group : {0, 1})
      EXPECT_EQ(positions(group, ranks), positions(group, 2)) << ranks << " ranks, group " << group;
}

TEST(SequenceOrder, NeedsWholeChunks) {
  EXPECT_TRUE(isOrder(7, 1));
  EXPECT_TRUE(isOrder(12, 3));
  EXPECT_FALSE(isOrder(7, 2));
  EXPECT_FALSE(isOrder(6, 2));
  EXPECT_FALSE(isOrder(8, INT64_MAX));
}

} // namespace
} // namespace mgc::plan
