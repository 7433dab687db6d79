// Requirements on every Communicator, for every backend and world size: each collective against its definition,
// equal bits on all ranks, transfers in order, and an end to every wait. Exchanges of rows: ExchangeConformanceTest.cpp.
#include "test/runtime/comm/Conformance.h"
#include "runtime/base/Bf16.h"
#include "test/runtime/TempDir.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

namespace mgc::test {
namespace {

using Kind = plan::Collective::Kind;

plan::Collective makeCollective(Kind kind, int64_t chunk, int64_t outer = 1, int64_t middle = 1,
                                plan::ReduceKind reduce = plan::ReduceKind::sum) {
  return {.kind = kind, .reduce = reduce, .outer = outer, .chunk = chunk, .middle = middle};
}

// Values whose float sums depend on the order of the terms; or whole numbers, whose sums do not.
Buffers makeSources(int64_t ranks, int64_t elements, bool isOrdered = true) {
  Buffers sources(ranks, std::vector<float>(elements));
  uint32_t state = 12345;
  for (std::vector<float> &source : sources)
    for (float &value : source) {
      state = state * 1664525u + 1013904223u;
      value = isOrdered ? std::ldexp(static_cast<float>(state >> 8) - (1 << 23), static_cast<int>(state % 23) - 30)
                        : static_cast<float>(state >> 16) - (1 << 15);
    }
  return sources;
}

float reduceAt(const Buffers &sources, int64_t index, plan::ReduceKind kind) {
  float result = sources[0][index];
  for (size_t rank = 1; rank < sources.size(); ++rank)
    result = kind == plan::ReduceKind::sum ? result + sources[rank][index] : std::max(result, sources[rank][index]);
  return result;
}

int64_t sourceElements(const plan::Collective &what, int64_t n) {
  switch (what.kind) {
  case Kind::allReduce:
  case Kind::allGather:
  case Kind::permute:
    return what.outer * what.chunk;
  case Kind::reduceScatter:
    return what.outer * n * what.chunk;
  case Kind::allToAll:
    return what.outer * n * what.middle * what.chunk;
  }
  return 0;
}

// The definitions in plan/Plan.h, element by element.
std::vector<float> reference(const plan::Collective &what, const Buffers &sources, int64_t rank) {
  const auto n = static_cast<int64_t>(sources.size());
  std::vector<float> result;
  for (int64_t o = 0; o < what.outer; ++o)
    switch (what.kind) {
    case Kind::allReduce:
      for (int64_t c = 0; c < what.chunk; ++c)
        result.push_back(reduceAt(sources, o * what.chunk + c, what.reduce));
      break;
    case Kind::allGather:
      for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < what.chunk; ++c)
          result.push_back(sources[i][o * what.chunk + c]);
      break;
    case Kind::reduceScatter:
      for (int64_t c = 0; c < what.chunk; ++c)
        result.push_back(reduceAt(sources, (o * n + rank) * what.chunk + c, what.reduce));
      break;
    case Kind::allToAll:
      for (int64_t i = 0; i < n && what.splitsInner; ++i)
        for (int64_t m = 0; m < what.middle; ++m)
          for (int64_t c = 0; c < what.chunk; ++c)
            result.push_back(sources[i][((o * what.middle + m) * n + rank) * what.chunk + c]);
      for (int64_t m = 0; m < what.middle && !what.splitsInner; ++m)
        for (int64_t i = 0; i < n; ++i)
          for (int64_t c = 0; c < what.chunk; ++c)
            result.push_back(sources[i][((o * n + rank) * what.middle + m) * what.chunk + c]);
      break;
    case Kind::permute:
      for (int64_t c = 0; c < what.chunk; ++c)
        result.push_back(sources[(rank + n - 1) % n][c]);
      break;
    }
  return result;
}

std::vector<plan::Collective> cases() {
  std::vector<plan::Collective> all;
  for (Kind kind : {Kind::allReduce, Kind::allGather, Kind::reduceScatter, Kind::allToAll, Kind::permute})
    for (plan::ReduceKind reduce : {plan::ReduceKind::sum, plan::ReduceKind::max})
      for (int64_t outer : {1, 3})
        for (int64_t chunk : {0, 1, 17, 5000})
          for (int64_t middle : {1, 2}) {
            const bool reduces = kind == Kind::allReduce || kind == Kind::reduceScatter;
            if ((kind == Kind::permute && outer > 1) || (middle > 1 && kind != Kind::allToAll) ||
                (reduce == plan::ReduceKind::max && !reduces))
              continue;
            all.push_back(makeCollective(kind, chunk, outer, middle, reduce));
            if (kind == Kind::allToAll) {
              all.push_back(all.back());
              all.back().splitsInner = true;
            }
          }
  return all;
}

std::string nameOf(const plan::Collective &what, int64_t ranks) {
  return fmt::format("kind {} reduce {} outer {} chunk {} middle {}{} ranks {}", static_cast<int>(what.kind),
                     static_cast<int>(what.reduce), what.outer, what.chunk, what.middle,
                     what.splitsInner ? " inner split" : "", ranks);
}

TEST_P(Conformance, everyCollectiveEqualsItsDefinition) {
  const std::vector<plan::Collective> all = cases();
  std::vector<Buffers> sources, results(all.size(), Buffers(ranks()));
  for (const plan::Collective &what : all)
    sources.push_back(makeSources(ranks(), sourceElements(what, ranks()), addsOtherwise().empty()));
  onEveryRank([&](Communicator &communicator, GroupId group) {
    for (size_t i = 0; i < all.size(); ++i) {
      std::vector<float> &result = results[i][communicator.rank()];
      result.assign(reference(all[i], sources[i], communicator.rank()).size(), NAN);
      const Status status =
          communicator.collective(group, all[i], sources[i][communicator.rank()].data(), result.data());
      ASSERT_TRUE(status.isOk()) << status.message();
    }
  });
  for (size_t i = 0; i < all.size(); ++i)
    for (int64_t rank : ranksHere())
      EXPECT_EQ(results[i][rank], reference(all[i], sources[i], rank)) << nameOf(all[i], ranks()) << " rank " << rank;
}

std::vector<Bf16> rounded(const std::vector<float> &values) {
  std::vector<Bf16> result(values.size());
  narrow(values.data(), static_cast<int64_t>(values.size()), result.data());
  return result;
}

// bf16 is summed in f32, in the order of the group, and rounded once: the rounding of what f32 gives, to the bit.
TEST_P(Conformance, everyCollectiveOfBf16RoundsOnce) {
  if (const std::string why = addsOtherwise(); !why.empty())
    GTEST_SKIP() << why;
  std::vector<plan::Collective> all = cases();
  std::vector<Buffers> sources;
  using Bf16Buffers = std::vector<std::vector<Bf16>>;
  std::vector<Bf16Buffers> given(all.size()), results(all.size(), Bf16Buffers(ranks()));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].type = plan::DType::bf16;
    sources.push_back(makeSources(ranks(), sourceElements(all[i], ranks())));
    for (std::vector<float> &source : sources[i]) {
      given[i].push_back(rounded(source));
      widen(given[i].back().data(), static_cast<int64_t>(source.size()), source.data());
    }
  }
  onEveryRank([&](Communicator &communicator, GroupId group) {
    const int64_t rank = communicator.rank();
    for (size_t i = 0; i < all.size(); ++i) {
      std::vector<Bf16> &result = results[i][rank];
      result.assign(reference(all[i], sources[i], rank).size(), toBf16(NAN));
      const Status status = communicator.collective(group, all[i], given[i][rank].data(), result.data());
      ASSERT_TRUE(status.isOk()) << status.message();
    }
  });
  for (size_t i = 0; i < all.size(); ++i)
    for (int64_t rank : ranksHere())
      EXPECT_EQ(results[i][rank], rounded(reference(all[i], sources[i], rank)))
          << nameOf(all[i], ranks()) << " rank " << rank;
}

TEST_P(Conformance, allReduceOfBf16InPlaceGivesAllRanksTheSameBits) {
  plan::Collective what = makeCollective(Kind::allReduce, 10'007);
  what.type = plan::DType::bf16;
  const std::vector<float> one(what.chunk,
                               1 + 0x1p-7f); // the odd last bit is kept: as many as ranks, exactly
  std::vector<std::vector<Bf16>> buffers(ranks(), rounded(one));
  onEveryRank([&](Communicator &communicator, GroupId group) {
    Bf16 *data = buffers[communicator.rank()].data();
    ASSERT_TRUE(communicator.collective(group, what, data, data).isOk());
  });
  const std::vector<float> sums(what.chunk, static_cast<float>(ranks()) * (1 + 0x1p-7f));
  for (int64_t rank : ranksHere())
    EXPECT_EQ(buffers[rank], rounded(sums));
}

TEST_P(Conformance, allReduceInPlaceGivesAllRanksTheSameBits) {
  const plan::Collective what = makeCollective(Kind::allReduce, 10'007);
  const Buffers sources = makeSources(ranks(), what.chunk, addsOtherwise().empty());
  Buffers buffers = sources;
  onEveryRank([&](Communicator &communicator, GroupId group) {
    float *data = buffers[communicator.rank()].data();
    const Status status = communicator.collective(group, what, data, data);
    ASSERT_TRUE(status.isOk()) << status.message();
  });
  const std::vector<float> expected = reference(what, sources, 0);
  for (int64_t rank : ranksHere())
    EXPECT_EQ(std::memcmp(buffers[rank].data(), expected.data(), expected.size() * sizeof(float)), 0);
}

TEST_P(Conformance, integersAreReducedAsIntegers) {
  plan::Collective what = makeCollective(Kind::allReduce, 3);
  what.type = plan::DType::i32;
  std::vector<std::vector<int32_t>> buffers(ranks(), {1, 1 << 25, 7});
  onEveryRank([&](Communicator &communicator, GroupId group) {
    std::vector<int32_t> &buffer = buffers[communicator.rank()];
    buffer[0] += 1 << 24; // one more than f32 can count
    ASSERT_TRUE(communicator.collective(group, what, buffer.data(), buffer.data()).isOk());
  });
  const auto n = static_cast<int32_t>(ranks());
  for (int64_t rank : ranksHere())
    EXPECT_EQ(buffers[rank], (std::vector<int32_t>{n * ((1 << 24) + 1), n * (1 << 25), n * 7}));
}

TEST_P(Conformance, aNanSurvivesEveryReduction) {
  for (plan::ReduceKind reduce : {plan::ReduceKind::sum, plan::ReduceKind::max})
    for (int64_t poisoned = 0; poisoned < ranks(); ++poisoned) {
      if (reduce == plan::ReduceKind::max && !backend().maxKeepsNan)
        continue;
      const plan::Collective what = makeCollective(Kind::allReduce, 20, 1, 1, reduce);
      Buffers buffers(ranks(), std::vector<float>(what.chunk, 1.0f));
      buffers[poisoned].assign(what.chunk, NAN);
      onEveryRank([&](Communicator &communicator, GroupId group) {
        float *data = buffers[communicator.rank()].data();
        ASSERT_TRUE(communicator.collective(group, what, data, data).isOk());
      });
      for (int64_t rank : ranksHere())
        for (float value : buffers[rank])
          EXPECT_TRUE(std::isnan(value));
    }
}

// The order of a group, not the rank number, decides who gets which part.
TEST_P(Conformance, groupsFollowTheirOwnOrder) {
  std::vector<int64_t> reversed = everyRank(ranks());
  std::reverse(reversed.begin(), reversed.end());
  const plan::Collective what = makeCollective(Kind::allGather, 1);
  Buffers results(ranks(), std::vector<float>(ranks()));
  makeWorld()->run([&](Communicator &communicator) {
    Result<GroupId> group = communicator.openGroup(reversed);
    const auto mine = static_cast<float>(communicator.rank());
    ASSERT_TRUE(communicator.collective(*group, what, &mine, results[communicator.rank()].data()).isOk());
  });
  for (int64_t rank : ranksHere())
    EXPECT_EQ(results[rank], std::vector<float>(reversed.begin(), reversed.end()));
}

TEST_P(Conformance, disjointGroupsDoNotMeet) {
  const plan::Collective what = makeCollective(Kind::allReduce, 100);
  std::vector<float> results(ranks());
  makeWorld()->run([&](Communicator &communicator) {
    std::vector<int64_t> parity;
    for (int64_t rank = communicator.rank() % 2; rank < ranks(); rank += 2)
      parity.push_back(rank);
    Result<GroupId> group = communicator.openGroup(parity);
    for (int round = 0; round < 50; ++round) {
      std::vector<float> buffer(what.chunk, static_cast<float>(communicator.rank()));
      ASSERT_TRUE(communicator.collective(*group, what, buffer.data(), buffer.data()).isOk());
      results[communicator.rank()] = buffer[99];
    }
  });
  for (int64_t rank : ranksHere()) {
    float sum = 0;
    for (int64_t other = rank % 2; other < ranks(); other += 2)
      sum += static_cast<float>(other);
    EXPECT_EQ(results[rank], sum);
  }
}

// Rank r sends to every rank, itself too, all posted before any is waited for.
TEST_P(Conformance, transfersMatchInOrderPerPair) {
  if (!hostsMeet())
    GTEST_SKIP() << "hosts do not meet";
  constexpr int64_t kRounds = 20;
  makeWorld()->run([&](Communicator &communicator) {
    const int64_t me = communicator.rank();
    communicator.reserveTransfers(2 * kRounds * ranks());
    std::vector<std::vector<int64_t>> out(ranks(), std::vector<int64_t>(kRounds)), in = out;
    std::vector<Ticket> tickets;
    for (int64_t round = 0; round < kRounds; ++round)
      for (int64_t peer = 0; peer < ranks(); ++peer) {
        out[peer][round] = 10'000 * me + 100 * peer + round;
        Result<Ticket> receive = communicator.receive({peer, 7, round, addressOf(&in[peer][round]), 8});
        Result<Ticket> send = communicator.send({peer, 7, round, addressOf(&out[peer][round]), 8});
        ASSERT_TRUE(receive.isOk() && send.isOk());
        tickets.insert(tickets.end(), {*receive, *send});
      }
    for (Ticket ticket : tickets) {
      const Status status = communicator.wait(ticket);
      ASSERT_TRUE(status.isOk()) << status.message();
    }
    for (int64_t peer = 0; peer < ranks(); ++peer)
      for (int64_t round = 0; round < kRounds; ++round)
        EXPECT_EQ(in[peer][round], 10'000 * peer + 100 * me + round);
  });
}

// An error on one side becomes the end of the world, as the engine does it.
Status failIfBad(Communicator &communicator, Status status) {
  if (!status.isOk())
    communicator.abort(status);
  return status;
}

Status postAndWait(Communicator &communicator, const Transfer &transfer, bool isSend) {
  Result<Ticket> ticket = isSend ? communicator.send(transfer) : communicator.receive(transfer);
  return failIfBad(communicator, ticket.isOk() ? communicator.wait(*ticket) : ticket.status());
}

TEST_P(Conformance, transfersThatDoNotAgreeAreReportedByBothEnds) {
  if (!hostsMeet())
    GTEST_SKIP() << "hosts do not meet";
  if (ranks() < 2)
    GTEST_SKIP() << "needs two ranks";
  const Transfer sent{1, 5, 2, 0, 8};
  for (const Transfer &received : {Transfer{0, 6, 2, 0, 8}, {0, 5, 3, 0, 8}, {0, 5, 2, 0, 4}}) {
    int64_t from = 1, to = 2;
    std::vector<Status> results(ranks());
    makeWorld()->run([&](Communicator &communicator) {
      Transfer transfer = communicator.rank() == 0 ? sent : received;
      transfer.data = addressOf(communicator.rank() == 0 ? &from : &to);
      if (communicator.rank() < 2)
        results[communicator.rank()] = postAndWait(communicator, transfer, communicator.rank() == 0);
    });
    const std::string expected =
        fmt::format("rank 0 sends value 5 of microbatch 2 (8 bytes) where rank 1 receives value {} of microbatch {} "
                    "({} bytes)",
                    received.value, received.microbatch, received.bytes);
    for (int64_t rank : ranksHere()) {
      if (rank > 1)
        continue;
      ASSERT_FALSE(results[rank].isOk());
      EXPECT_EQ(results[rank].message(), expected);
    }
    EXPECT_EQ(to, 2) << "nothing may be copied";
  }
}

TEST_P(Conformance, collectivesThatDoNotAgreeAreReportedByAll) {
  if (!hostsMeet())
    GTEST_SKIP() << "hosts do not meet";
  if (ranks() < 2)
    GTEST_SKIP() << "needs two ranks";
  std::vector<Status> results(ranks());
  Buffers buffers(ranks(), std::vector<float>(1000));
  makeWorld()->run([&](Communicator &communicator) {
    Result<GroupId> group = communicator.openGroup(everyRank(ranks()));
    const plan::Collective what = makeCollective(Kind::allReduce, communicator.rank() == 1 ? 16 : 17);
    float *data = buffers[communicator.rank()].data();
    results[communicator.rank()] = failIfBad(communicator, communicator.collective(*group, what, data, data));
  });
  for (int64_t rank : ranksHere()) {
    EXPECT_TRUE(fails(results[rank], {"rank 0 in all_reduce (sum of f32, outer 1, middle 1, chunk 17), rank 1 in "
                                      "all_reduce (sum of f32, outer 1, middle 1, chunk 16)"}));
  }
}

// All but the last rank wait, in a collective or for a transfer, when the last one aborts.
TEST_P(Conformance, abortWakesEveryWait) {
  if (!hostsMeet())
    GTEST_SKIP() << "hosts do not meet";
  for (bool inCollective : {true, false}) {
    std::vector<Status> results(ranks());
    const auto start = std::chrono::steady_clock::now();
    makeWorld()->run([&](Communicator &communicator) {
      Result<GroupId> group = communicator.openGroup(everyRank(ranks()));
      if (communicator.rank() == ranks() - 1) {
        std::this_thread::sleep_for(milliseconds(30));
        communicator.abort(Status::error("the disk is on fire"));
        communicator.abort(Status::error("a later cause"));
        results[communicator.rank()] = communicator.barrier(*group);
      } else if (inCollective) {
        results[communicator.rank()] = communicator.barrier(*group);
      } else {
        int64_t data = 0;
        results[communicator.rank()] = postAndWait(communicator, {ranks() - 1, 0, 0, addressOf(&data), 8}, false);
      }
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
    for (int64_t rank : ranksHere()) {
      ASSERT_FALSE(results[rank].isOk()) << rank;
      EXPECT_EQ(results[rank].message(), "the disk is on fire");
    }
  }
}

TEST_P(Conformance, theDeadlineNamesWhoWasWaitedFor) {
  if (!hostsMeet())
    GTEST_SKIP() << "hosts do not meet";
  if (ranks() < 2)
    GTEST_SKIP() << "needs two ranks";
  std::vector<Status> results(ranks());
  makeWorld(milliseconds(50))->run([&](Communicator &communicator) {
    Result<GroupId> group = communicator.openGroup(everyRank(ranks()));
    int64_t data = 0;
    if (communicator.rank() == 0)
      results[0] = communicator.barrier(*group);
    else if (communicator.rank() == 1)
      results[1] = postAndWait(communicator, {0, 4, 3, addressOf(&data), 8}, false);
  });
  std::vector<int64_t> others = everyRank(ranks());
  others.erase(others.begin());
  const std::string ofTransfer = "waited 0.05 s for rank 0 to send value 4 of microbatch 3 (8 bytes)";
  const std::string ofBarrier = fmt::format("waited 0.05 s for ranks [{}] to join", fmt::join(others, ", "));
  for (int64_t rank : ranksHere()) { // the first one's is the cause of both
    if (rank > 1)
      continue;
    ASSERT_FALSE(results[rank].isOk());
    const std::string &message = results[rank].message();
    EXPECT_TRUE(message == ofTransfer || (rank == 0 && message.find(ofBarrier) == 0)) << message;
  }
}

// A rank that sleeps in a collective still posts what becomes ready: without that, this would wait for ever.
TEST_P(Conformance, progressIsMadeWhileWaiting) {
  if (!hostsMeet())
    GTEST_SKIP() << "hosts do not meet";
  if (ranks() < 2)
    GTEST_SKIP() << "needs two ranks";
  struct Forward final : Progress {
    Communicator *communicator = nullptr;
    Transfer transfer;
    Ticket trigger = -1, ticket = -1;
    bool posted = false;
    Status progress() override {
      if (posted)
        return Status::ok();
      MGC_ASSIGN(hasCome, communicator->poll(trigger));
      if (!hasCome)
        return Status::ok();
      MGC_SET(ticket, communicator->send(transfer));
      posted = true;
      return Status::ok();
    }
  };
  int64_t data = 42, received = 0, token = 0, tokenReceived = 0;
  makeWorld()->run([&](Communicator &communicator) {
    Result<GroupId> group = communicator.openGroup({0, 1});
    if (communicator.rank() == 0) {
      Forward forward;
      forward.communicator = &communicator;
      forward.transfer = {1, 0, 0, addressOf(&data), 8};
      Result<Ticket> trigger = communicator.receive({1, 1, 0, addressOf(&tokenReceived), 8});
      ASSERT_TRUE(trigger.isOk());
      forward.trigger = *trigger;
      communicator.setProgress(&forward);
      ASSERT_TRUE(communicator.barrier(*group).isOk());
      communicator.setProgress(nullptr);
      ASSERT_TRUE(communicator.wait(*trigger).isOk());
      ASSERT_TRUE(communicator.wait(forward.ticket).isOk());
    } else if (communicator.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(20));                               // rank 0 sleeps by now
      Result<Ticket> trigger = communicator.send({0, 1, 0, addressOf(&token), 8}); // its arrival wakes rank 0
      ASSERT_TRUE(communicator.wait(*trigger).isOk());
      Result<Ticket> receive = communicator.receive({0, 0, 0, addressOf(&received), 8});
      ASSERT_TRUE(communicator.wait(*receive).isOk());
      ASSERT_TRUE(communicator.barrier(*group).isOk());
    }
  });
  if (isHere(1))
    EXPECT_EQ(received, 42);
}

// Groups of the same ranks and other colors, each used by a thread of its own, which comes to its collectives at other
// times.
TEST_P(Conformance, concurrentCollectivesMeetInTheirOwnGroup) {
  std::atomic<bool> isSkipped{false};
  const plan::Collective what = makeCollective(Kind::allReduce, 1000);
  makeWorld()->run([&](Communicator &communicator) {
    if (!communicator.hasConcurrentCollectives()) {
      isSkipped = true;
      return;
    }
    const auto own = static_cast<float>(communicator.rank() + 1);
    const auto sum = static_cast<float>(ranks() * (ranks() + 1)) / 2;
    const Result<GroupId> first = communicator.openGroup(everyRank(ranks())),
                          second = communicator.openGroup(everyRank(ranks()), 1);
    ASSERT_TRUE(first.isOk() && second.isOk());
    std::atomic<int> done{0};
    std::thread other([&] {
      for (int round = 0; round < 50; ++round) {
        std::vector<float> buffer(what.chunk, 2 * own);
        std::this_thread::sleep_for(std::chrono::microseconds(37 * communicator.rank()));
        EXPECT_TRUE(communicator.concurrentCollective(*second, what, addressOf(buffer.data()), addressOf(buffer.data()))
                        .isOk());
        EXPECT_EQ(buffer[999], 2 * sum);
        ++done;
        communicator.wake();
      }
    });
    for (int round = 0; round < 50; ++round) {
      std::vector<float> buffer(what.chunk, own);
      EXPECT_TRUE(communicator.collective(*first, what, buffer.data(), buffer.data()).isOk());
      EXPECT_EQ(buffer[999], sum);
      EXPECT_TRUE(communicator.await([&] { return done > round; }).isOk());
    }
    other.join();
  });
  if (isSkipped)
    GTEST_SKIP() << "the ranks' threads make all collectives";
}

TEST_P(Conformance, groupsAreChecked) {
  makeWorld()->run([&](Communicator &communicator) {
    if (communicator.rank() != 0)
      return;
    EXPECT_FALSE(communicator.openGroup({0, ranks()}).isOk());
    EXPECT_FALSE(communicator.openGroup({0, 0}).isOk());
    EXPECT_FALSE(communicator.openGroup({-1, 0}).isOk());
    EXPECT_FALSE(communicator.openGroup({}).isOk());
  });
}

INSTANTIATE_TEST_SUITE_P(All, Conformance,
                         testing::Combine(testing::ValuesIn(backends()), testing::Range<int64_t>(1, 6)), parameterName);

} // namespace
} // namespace mgc::test
