#include "runtime/checkpoint/Box.h"

#include <gtest/gtest.h>
#include <numeric>

namespace mgc::test {
namespace {

std::vector<Box> boxesOf(const std::vector<int64_t> &shape, int64_t begin, int64_t end) {
  std::vector<Box> boxes;
  forEachBox(shape, begin, end, [&](const Box &box, int64_t first, int64_t count) {
    EXPECT_EQ(first, beginOf(box, shape));
    EXPECT_EQ(count, box.elements());
    boxes.push_back(box);
  });
  return boxes;
}

TEST(Box, aStretchBeginsAndEndsWithinRows) {
  EXPECT_EQ(boxesOf({4, 6}, 3, 20), (std::vector<Box>{{{0, 3}, {1, 3}}, {{1, 0}, {2, 6}}, {{3, 0}, {1, 2}}}));
  EXPECT_EQ(boxesOf({4, 6}, 6, 18), (std::vector<Box>{{{1, 0}, {2, 6}}}));
  EXPECT_EQ(boxesOf({4, 6}, 7, 9), (std::vector<Box>{{{1, 1}, {1, 2}}}));
  EXPECT_EQ(boxesOf({}, 0, 1), (std::vector<Box>{{{}, {}}}));
}

// Every stretch of every tensor: the boxes have its elements, in order.
TEST(Box, everyStretchIsItsBoxes) {
  for (const std::vector<int64_t> &shape : {std::vector<int64_t>{7}, {3, 4}, {2, 3, 4}, {1, 5, 1, 3}, {4, 1, 2}}) {
    const int64_t all = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
    for (int64_t begin = 0; begin < all; ++begin)
      for (int64_t end = begin + 1; end <= all; ++end) {
        int64_t next = begin;
        const std::vector<Box> boxes = boxesOf(shape, begin, end);
        for (const Box &box : boxes) {
          EXPECT_EQ(beginOf(box, shape), next);
          next += box.elements();
        }
        EXPECT_EQ(next, end);
        EXPECT_LE(boxes.size(), 2 * shape.size() - 1);
        std::vector<Box> cut = boxes;
        std::ranges::copy(boxesOf(shape, 0, begin), std::back_inserter(cut));
        std::ranges::copy(boxesOf(shape, end, all), std::back_inserter(cut));
        EXPECT_TRUE(cover(cut, shape));
        EXPECT_FALSE(cover(std::span(cut).subspan(1), shape));
        cut.push_back(cut[0]);
        EXPECT_FALSE(cover(cut, shape));
      }
  }
}

// As many elements as the tensor, one of them twice and one not at all.
TEST(Box, overlapIsNoCover) {
  const std::vector<Box> boxes = {{{0, 0}, {2, 2}}, {{1, 1}, {1, 2}}};
  EXPECT_FALSE(cover(boxes, std::vector<int64_t>{2, 3}));
  EXPECT_FALSE(cover(std::vector<Box>{{{0, 0}, {2, 4}}}, std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(cover(std::vector<Box>{{{0, 0}, {2, 2}}, {{0, 2}, {2, 1}}}, std::vector<int64_t>{2, 3}));
}

TEST(Box, onlyNeighboursJoin) {
  EXPECT_EQ(joinedAlong({{0, 0}, {1, 3}}, {{1, 0}, {1, 3}}), 0u);
  EXPECT_EQ(joinedAlong({{0, 0}, {1, 3}}, {{0, 3}, {1, 1}}), 1u);
  EXPECT_FALSE(joinedAlong({{1, 0}, {1, 3}}, {{0, 0}, {1, 3}})); // the reverse
  EXPECT_FALSE(joinedAlong({{0, 0}, {1, 3}}, {{2, 0}, {1, 3}}));
  EXPECT_FALSE(joinedAlong({{0, 0}, {1, 3}}, {{1, 1}, {1, 3}}));
}

} // namespace
} // namespace mgc::test
