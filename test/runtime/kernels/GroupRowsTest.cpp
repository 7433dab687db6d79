#include "runtime/kernels/GroupRows.h"

#include "test/runtime/kernels/KernelData.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

using namespace mgc;
using Numbers = std::vector<int32_t>;

namespace {

struct Order {
  Order(const Numbers &numbers, int64_t groups) : Order(numbers, groups, std::ssize(numbers), {0, groups}) {}
  Order(const Numbers &numbers, int64_t groups, int64_t room, const GroupShare &share)
      : counts(groups, -1), places(numbers.size(), -1), sources(room, -1),
        status(groupRows({groups, std::ssize(numbers), room}, share, numbers.data(), counts.data(), places.data(),
                         sources.data())) {}
  Numbers counts, places, sources;
  Status status;
};

} // namespace

TEST(GroupRows, byHand) {
  const Order order({2, 0, 2, 0}, 3);
  EXPECT_EQ(order.counts, (Numbers{2, 0, 2}));
  EXPECT_EQ(order.places, (Numbers{2, 0, 3, 1}));
  EXPECT_EQ(order.sources, (Numbers{1, 3, 0, 2}));
}

TEST(GroupRows, isTheStableOrder) {
  const std::vector<float> draws = test::randomFloats(1000, 7);
  for (int64_t groups : {1, 2, 7, 512}) {
    Numbers numbers, wanted(draws.size());
    for (float draw : draws)
      numbers.push_back(int32_t(std::abs(draw) * 1000) % int32_t(groups));
    std::iota(wanted.begin(), wanted.end(), 0);
    std::ranges::stable_sort(wanted, {}, [&](int32_t row) { return numbers[row]; });
    const Order order(numbers, groups);
    ASSERT_EQ(order.sources, wanted) << groups;
    for (size_t row = 0; row < numbers.size(); ++row)
      ASSERT_EQ(order.sources[order.places[row]], int32_t(row));
    for (int64_t group = 0; group < groups; ++group)
      ASSERT_EQ(order.counts[group], std::ranges::count(numbers, int32_t(group)));
  }
}

// Two ranks with two of four groups each.
TEST(GroupRows, hasPlacesForItsOwnGroupsAlone) {
  const Numbers numbers = {2, 0, 3, 2};
  const Order first(numbers, 2, 4, {0, 4}), second(numbers, 2, 4, {2, 4});
  EXPECT_EQ(first.counts, (Numbers{1, 0}));
  EXPECT_EQ(first.places, (Numbers{4, 0, 4, 4}));
  EXPECT_EQ(first.sources, (Numbers{1, 4, 4, 4}));
  EXPECT_EQ(second.counts, (Numbers{2, 1}));
  EXPECT_EQ(second.places, (Numbers{0, 4, 2, 1}));
  EXPECT_EQ(second.sources, (Numbers{0, 3, 2, 4}));
}

TEST(GroupRows, refusesMoreRowsThanPlacesAndWritesNothing) {
  const Order order({3, 2, 3, 0, 3}, 2, 3, {2, 4});
  EXPECT_EQ(order.status.message(),
            "the rank's experts have 4 of 5 rows (expert 3: 3); the plan has room for 3\n"
            "  possible: a plan of a larger --moe-rows-factor (mgc compile), or of 0, with room for all rows that may "
            "come; a run goes on with it from the last checkpoint");
  EXPECT_EQ(order.counts, Numbers(2, -1));
}

TEST(GroupRows, refusesNumbersThatAreNoGroupAndWritesNothing) {
  for (int32_t wrong : {-1, 4, INT32_MAX, INT32_MIN}) {
    const Order order({0, 2, wrong, 1}, 3);
    EXPECT_EQ(order.status.message(),
              fmt::format("row 2 of 4 is of group {}; expected a group from 0 to 2, or 3, which is none", wrong));
    EXPECT_EQ(order.counts, Numbers(3, -1));
  }
}
