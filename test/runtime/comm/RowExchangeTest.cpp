#include "runtime/comm/RowExchange.h"

#include <gtest/gtest.h>

using namespace mgc;

namespace {

constexpr plan::ExchangeRows kTwo{.groups = 2, .rows = 5, .places = 6, .width = 1};
const std::vector<int64_t> kRanks = {4, 7};

std::string errorOf(const std::vector<int32_t> &counts) {
  return RowExchange().read(kTwo, kRanks, counts.data()).message();
}

} // namespace

// Rank 4 has rows 3 0 | 1 1 of the four experts, rank 7 has 2 1 | 0 2.
TEST(RowExchange, byHand) {
  const std::vector<int32_t> counts = {3, 0, 1, 1, 2, 1, 0, 2};
  RowExchange rows;
  ASSERT_TRUE(rows.read(kTwo, kRanks, counts.data()).isOk());
  const auto expect = [&](int64_t owner, int64_t host, int64_t group, RowExchange::Piece wanted) {
    const RowExchange::Piece &found = rows.piece(owner, host, group);
    EXPECT_EQ(std::tie(found.count, found.own, found.there), std::tie(wanted.count, wanted.own, wanted.there))
        << owner << " " << host << " " << group;
  };
  expect(0, 0, 0, {3, 0, 0}), expect(1, 0, 0, {2, 0, 3}); // expert 0: three rows of rank 4, then two of rank 7
  expect(0, 0, 1, {0, 3, 5}), expect(1, 0, 1, {1, 2, 5});
  expect(0, 1, 0, {1, 3, 0}), expect(1, 1, 0, {0, 3, 1});
  expect(0, 1, 1, {1, 4, 1}), expect(1, 1, 1, {2, 3, 2});
}

TEST(RowExchange, refusesCountsThatCannotBe) {
  EXPECT_EQ(errorOf({3, 0, -1, 1, 2, 1, 0, 2}),
            "rank 4 has -1 rows for expert 2 of 4, 2 with those before it; expected from 0 to 5 in all");
  EXPECT_EQ(errorOf({3, 0, 1, 1, 2, 1, 0, 3}),
            "rank 7 has 3 rows for expert 3 of 4, 6 with those before it; expected from 0 to 5 in all");
  EXPECT_EQ(errorOf({INT32_MAX, 0, 1, 1, 2, 1, 0, 3}),
            "rank 4 has 2147483647 rows for expert 0 of 4, 2147483647 with those before it; expected from 0 to 5 in "
            "all");
  EXPECT_EQ(errorOf({5, 0, 0, 0, 1, 1, 0, 0}),
            "the experts of rank 4 get 7 rows (expert 0: 6); the plan has room for 6\n"
            "  possible: a plan of a larger --moe-rows-factor (mgc compile), or of 0, with room for all rows that may "
            "come; a run goes on with it from the last checkpoint");
}
