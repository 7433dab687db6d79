// Requirements on exchanges of rows by every Communicator: rows come to the ranks of their experts and back, and wrong counts end
// all ranks before one sends.
#include "runtime/base/Bf16.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/comm/Conformance.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <span>
#include <thread>

namespace mgc::test {
namespace {

constexpr float kLeft = -7; // value of places without a row

class ExchangeConformance : public Conformance {};

// Rows of each rank by expert, which say whose they are and for whom.
struct OwnRows {
  std::vector<int32_t> counts; // [ranks, ranks * experts]
  Buffers own, hosted;         // by rank

  // Rank i has (i + 2 g) % 4 rows of expert g, of which there are `experts` on each rank; none with `toOne`, but for the last
  // expert, which gets them all.
  OwnRows(int64_t ranks, int64_t experts, int64_t width, bool toOne = false) : own(ranks), hosted(ranks) {
    const int64_t all = ranks * experts;
    for (int64_t i = 0; i < ranks; ++i)
      for (int64_t g = 0; g < all; ++g)
        counts.push_back(static_cast<int32_t>(toOne ? (g == all - 1) * 6 : (i + 2 * g) % 4));
    const auto add = [&](Buffers &to, int64_t where, int64_t owner, int64_t expert) {
      for (int64_t row = 0; row < counts[owner * all + expert]; ++row)
        for (int64_t column = 0; column < width; ++column)
          to[where].push_back(static_cast<float>(((owner * all + expert) * 10 + row) * 10 + column));
    };
    for (int64_t i = 0; i < ranks; ++i)
      for (int64_t g = 0; g < all; ++g)
        add(own, i, i, g);
    for (int64_t g = 0; g < all; ++g)
      for (int64_t i = 0; i < ranks; ++i)
        add(hosted, g / experts, i, g);
  }
};

// An exchange with room for the rows of any rank, and some more places.
plan::ExchangeRows exchangeOf(std::span<const OwnRows> all, int64_t experts, int64_t width, int64_t spare = 0) {
  plan::ExchangeRows what{.groups = experts, .rows = 1, .places = 1, .width = width};
  for (const OwnRows &rows : all)
    for (size_t rank = 0; rank < rows.own.size(); ++rank) {
      what.rows = std::max<int64_t>(what.rows, std::ssize(rows.own[rank]) / width);
      what.places = std::max<int64_t>(what.places, std::ssize(rows.hosted[rank]) / width + spare);
    }
  return what;
}

TEST_P(ExchangeConformance, rowsGoToTheirExpertsAndComeBack) {
  constexpr int64_t kExperts = 3, kWidth = 2, kSpare = 5;
  for (const bool toOne : {false, true}) {
    const OwnRows rows(ranks(), kExperts, kWidth, toOne);
    const plan::ExchangeRows what = exchangeOf({&rows, 1}, kExperts, kWidth, kSpare);
    const auto padded = [&](std::vector<float> values, int64_t count, float with) {
      values.resize(static_cast<size_t>(count * kWidth), with);
      return values;
    };
    std::vector<Status> statuses(ranks());
    Buffers there(ranks()), back(ranks());
    onEveryRank([&](Communicator &communicator, GroupId group) {
      const int64_t rank = communicator.rank();
      const std::vector<float> mine = padded(rows.own[rank], what.rows, NAN);
      there[rank] = padded({}, what.places, kLeft), back[rank] = padded({}, what.rows, kLeft);
      plan::ExchangeRows home = what;
      home.back = true;
      const auto exchange = [&](const plan::ExchangeRows &one, const auto &from, auto &to) {
        return communicator.exchangeRows(plugin::Stream(), group, one,
                                         {.counts = addressOf(rows.counts.data()),
                                          .source = addressOf(from.data()),
                                          .destination = addressOf(to.data()),
                                          .sameCounts = one.back});
      };
      statuses[rank] = exchange(what, mine, there[rank]);
      if (statuses[rank].isOk())
        statuses[rank] = exchange(home, there[rank], back[rank]);
    });
    for (int64_t rank : ranksHere()) {
      ASSERT_TRUE(statuses[rank].isOk()) << statuses[rank].message();
      EXPECT_EQ(there[rank], padded(rows.hosted[rank], what.places, kLeft)) << rank;
      EXPECT_EQ(back[rank], padded(rows.own[rank], what.rows, kLeft)) << rank;
    }
  }
}

// Rows of 1, 2, 5 and 8 elements of bf16 have other alignments.
TEST_P(ExchangeConformance, rowsOfAnyWidth) {
  for (const int64_t width : {1, 2, 5, 8}) {
    const OwnRows rows(ranks(), 2, width, false);
    plan::ExchangeRows what = exchangeOf({&rows, 1}, 2, width);
    what.type = plan::DType::bf16;
    std::vector<Status> statuses(ranks());
    std::vector<std::vector<Bf16>> there(ranks());
    onEveryRank([&](Communicator &communicator, GroupId group) {
      const int64_t rank = communicator.rank();
      std::vector<Bf16> mine(static_cast<size_t>(what.rows * width), toBf16(NAN));
      for (size_t i = 0; i < rows.own[rank].size(); ++i)
        mine[i] = toBf16(rows.own[rank][i]);
      there[rank].assign(static_cast<size_t>(what.places * width), toBf16(kLeft));
      statuses[rank] = communicator.exchangeRows(plugin::Stream(), group, what,
                                                 {.counts = addressOf(rows.counts.data()),
                                                  .source = addressOf(mine.data()),
                                                  .destination = addressOf(there[rank].data())});
    });
    for (int64_t rank : ranksHere()) {
      ASSERT_TRUE(statuses[rank].isOk()) << statuses[rank].message();
      std::vector<float> wanted = rows.hosted[rank];
      wanted.resize(static_cast<size_t>(what.places * width), kLeft);
      for (size_t i = 0; i < wanted.size(); ++i)
        ASSERT_EQ(toFloat(there[rank][i]), toFloat(toBf16(wanted[i]))) << rank << " " << i;
    }
  }
}

// Exchanges at once: one thread's go there while the other's, of other counts, come back.
TEST_P(ExchangeConformance, concurrentExchangesMeetInTheirOwnGroup) {
  constexpr int64_t kExperts = 2, kWidth = 3;
  const std::array<OwnRows, 2> rows = {OwnRows(ranks(), kExperts, kWidth, false),
                                       OwnRows(ranks(), kExperts, kWidth, true)};
  const plan::ExchangeRows what = exchangeOf(rows, kExperts, kWidth);
  std::atomic<bool> isSkipped{false};
  makeWorld()->run([&](Communicator &communicator) {
    if (!communicator.hasConcurrentCollectives()) {
      isSkipped = true;
      return;
    }
    const Result<GroupId> first = communicator.openGroup(everyRank(ranks())),
                          second = communicator.openGroup(everyRank(ranks()), 1);
    ASSERT_TRUE(first.isOk() && second.isOk());
    const auto exchangeAll = [&](const OwnRows &one, const auto &exchange) {
      const int64_t rank = communicator.rank();
      for (int round = 0; round < 50; ++round) {
        std::vector<float> mine = one.own[rank], there(what.places * kWidth, kLeft), back(what.rows * kWidth, kLeft),
                           wanted = one.hosted[rank];
        mine.resize(what.rows * kWidth, kLeft), wanted.resize(what.places * kWidth, kLeft);
        plan::ExchangeRows home = what;
        home.back = true;
        const mgc_address counts = addressOf(one.counts.data());
        EXPECT_TRUE(exchange(what, RowBuffers{counts, addressOf(mine.data()), addressOf(there.data())}).isOk());
        EXPECT_TRUE(exchange(home, RowBuffers{counts, addressOf(there.data()), addressOf(back.data())}).isOk());
        EXPECT_EQ(there, wanted);
        EXPECT_EQ(back, mine);
      }
    };
    std::thread other([&] {
      exchangeAll(rows[1], [&](const plan::ExchangeRows &one, const RowBuffers &buffers) {
        std::this_thread::sleep_for(std::chrono::microseconds(37 * communicator.rank()));
        return communicator.concurrentExchangeRows(*second, one, buffers);
      });
    });
    exchangeAll(rows[0], [&](const plan::ExchangeRows &one, const RowBuffers &buffers) {
      return communicator.exchangeRows(plugin::Stream(), *first, one, buffers);
    });
    other.join();
  });
  if (isSkipped)
    GTEST_SKIP() << "the ranks' threads make all exchanges";
}

// All ranks have the same counts, so all find the mistake, and none sends.
TEST_P(ExchangeConformance, wrongCountsOfRowsAreRefused) {
  if (backend().countsEndDevice)
    GTEST_SKIP() << "cuda_device_test has it, in a process of its own";
  const plan::ExchangeRows what{.groups = 1, .rows = 4, .places = 4 * ranks(), .width = 1};
  std::vector<int32_t> counts(static_cast<size_t>(ranks() * ranks()), 0);
  counts.back() = -1;
  std::vector<Status> statuses(ranks());
  makeWorld()->run([&](Communicator &communicator) {
    const int64_t rank = communicator.rank();
    Result<GroupId> group = communicator.openGroup(everyRank(ranks()));
    statuses[rank] = group.status();
    if (!group.isOk()) // another has found the mistake while this one was still opening
      return;
    std::vector<float> from(4, 1), to(static_cast<size_t>(what.places), 2);
    statuses[rank] = communicator.exchangeRows(
        plugin::Stream(), *group, what,
        {.counts = addressOf(counts.data()), .source = addressOf(from.data()), .destination = addressOf(to.data())});
    if (!statuses[rank].isOk()) // one that finds a device failed before it meets the others is not waited for
      communicator.abort(statuses[rank]);
    EXPECT_EQ(to, std::vector<float>(to.size(), 2));
  });
  const std::string wanted = fmt::format("rank {} has -1 rows for expert {} of {}", ranks() - 1, ranks() - 1, ranks());
  bool isNamed = false;
  for (int64_t rank : ranksHere()) {
    EXPECT_FALSE(statuses[rank].isOk());
    isNamed |= bool(fails(statuses[rank], {wanted}));
  }
  EXPECT_TRUE(isNamed);
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeConformance,
                         testing::Combine(testing::ValuesIn(backends()), testing::Range<int64_t>(1, 6)), parameterName);

} // namespace
} // namespace mgc::test
