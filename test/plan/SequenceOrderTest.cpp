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

} // namespace
} // namespace mgc::plan
