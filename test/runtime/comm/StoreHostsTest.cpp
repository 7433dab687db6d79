// The hosts of ranks on devices: barriers and small collectives over the store. Threads stand for the processes.
#include "runtime/comm/hosts/StoreHosts.h"
#include "test/runtime/TempDir.h"
#include "test/runtime/comm/OnThreads.h"
#include "test/runtime/comm/StoreOfTest.h"

namespace mgc::test {
namespace {

using namespace std::chrono_literals;

// body(hosts, everyone) on a thread for each rank; what each returns.
std::vector<Status> onHosts(int64_t ranks, std::chrono::milliseconds timeout,
                            const std::function<Status(Communicator &, GroupId)> &body) {
  const StoreOfTest store(ranks);
  std::vector<std::unique_ptr<Processes>> processes(ranks);
  std::vector<Status> results(ranks);
  onThreads(ranks, [&](int64_t rank) {
    processes[rank] = store.join(rank);
    ASSERT_TRUE(processes[rank]);
    const std::unique_ptr<Communicator> hosts = makeStoreHosts(*processes[rank], timeout);
    std::vector<int64_t> all;
    for (int64_t other = ranks - 1; other >= 0; --other) // the order of a group is its own
      all.push_back(other);
    const Result<GroupId> everyone = hosts->openGroup(all);
    ASSERT_TRUE(isOk(everyone));
    results[rank] = body(*hosts, *everyone);
    if (!results[rank].isOk())
      hosts->abort(results[rank]);
    (void)processes[rank]->end(results[rank]);
  });
  return results;
}

TEST(StoreHosts, gatherAndReduce) {
  for (const Status &status : onHosts(3, 30s, [](Communicator &hosts, GroupId everyone) -> Status {
         const plan::Collective gather{
             .kind = plan::Collective::Kind::allGather, .type = plan::DType::i32, .outer = 2, .chunk = 1};
         const plan::Collective most{.reduce = plan::ReduceKind::max, .type = plan::DType::i32, .chunk = 1};
         for (int32_t round = 0; round < 20; ++round) {
           const auto rank = static_cast<int32_t>(hosts.rank());
           const std::array<int32_t, 2> mine = {round + rank, 100 + rank};
           std::array<int32_t, 6> all{};
           MGC_TRY(hosts.collective(everyone, gather, mine.data(), all.data()));
           EXPECT_EQ(all, (std::array<int32_t, 6>{round + 2, round + 1, round, 102, 101, 100}));
           int32_t value = round * rank;
           MGC_TRY(hosts.collective(everyone, most, &value, &value));
           EXPECT_EQ(value, round * 2);
           MGC_TRY(hosts.barrier(everyone));
         }
         return Status::ok();
       }))
    EXPECT_TRUE(isOk(status));
}

TEST(StoreHosts, othersAreNamed) {
  const std::vector<Status> late = onHosts(2, 50ms, [](Communicator &hosts, GroupId everyone) {
    return hosts.rank() == 1 ? hosts.barrier(everyone) : Status::ok();
  });
  EXPECT_TRUE(fails(late[1], {"waited 0.05 s for members [1] to join collective 1 of 2 ranks from 1 to 0"}));
  const std::vector<Status> other = onHosts(2, 30s, [](Communicator &hosts, GroupId everyone) {
    const plan::Collective what{.type = plan::DType::i32, .chunk = 1 + hosts.rank()};
    std::array<int32_t, 2> values{};
    return hosts.collective(everyone, what, values.data(), values.data());
  });
  for (const Status &status : other)
    EXPECT_TRUE(fails(status, {"ranks [1, 0] meet in different collectives: rank 1 in all_reduce"}));
}

TEST(StoreHosts, anAbortEndsTheWaits) {
  for (const Status &status : onHosts(3, 30s, [](Communicator &hosts, GroupId everyone) {
         if (hosts.rank() != 1)
           return hosts.barrier(everyone);
         std::this_thread::sleep_for(30ms);
         return Status::error("the disk is on fire");
       }))
    EXPECT_TRUE(fails(status, {"the disk is on fire"}));
}

TEST(StoreHosts, tensorsAreRefused) {
  const std::vector<Status> results = onHosts(1, 30s, [](Communicator &hosts, GroupId everyone) {
    const plan::Collective what{.chunk = 1 << 20};
    std::vector<float> values(1 << 20);
    return hosts.collective(everyone, what, values.data(), values.data());
  });
  EXPECT_TRUE(fails(results[0], {"the hosts of ranks on devices have no all_reduce of 4194304 bytes"}));
}

} // namespace
} // namespace mgc::test
