// The processes of a run: how they end, together, and what they are told.
#include "test/runtime/TempDir.h"
#include "test/runtime/comm/OnThreads.h"
#include "test/runtime/comm/StoreOfTest.h"

#include <thread>

namespace mgc::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// --- The end ----------------------------------------------------------------------------------------------------

TEST(Processes, allFinishTogether) {
  const JoinedRun run(3);
  std::atomic<int> saying{0};
  onThreads(3, [&](int64_t rank) {
    std::this_thread::sleep_for(50ms * rank);
    ++saying;
    EXPECT_TRUE(isOk(run[rank].end(Status::ok())));
    EXPECT_EQ(saying, 3) << "nobody has finished before all are about to";
  });
}

TEST(Processes, oneErrorEndsAllAndIsToldInFullOnce) {
  const JoinedRun run(3);
  std::vector<Status> ends(3);
  onThreads(3, [&](int64_t rank) {
    if (rank == 1)
      ends[1] = run[1].end(Status::error("the disk is full\nand slow"));
    else
      ends[rank] = run[rank].end(Status::ok());
  });
  EXPECT_EQ(ends[1].message(), "the disk is full\nand slow");
  EXPECT_EQ(ends[0].message(), "rank 0 ends because of rank 1: the disk is full");
  EXPECT_EQ(ends[2].message(), "rank 2 ends because of rank 1: the disk is full");
}

TEST(Processes, onOneScreenRank0AloneTellsAnError) {
  const JoinedRun run(3);
  std::vector<Status> ends(3);
  std::vector<std::string> told(3);
  onThreads(3, [&](int64_t rank) {
    const auto tell = [&, rank](const Status &error) { told[rank] = error.message(); };
    ends[rank] = run[rank].end(rank == 1 ? Status::error("the disk is full\nand slow") : Status::ok(), tell);
  });
  EXPECT_EQ(told, (std::vector<std::string>{"rank 1: the disk is full\nand slow", "", ""}));
  for (const Status &end : ends)
    EXPECT_TRUE(!end.isOk() && end.message().empty());
}

TEST(Processes, withoutAWordOfRank0EachTellsAnErrorItself) {
  const JoinedRun run(2);
  const Status end = run[1].end(Status::error("the disk is full"), [](const Status &) {}); // rank 0 computes meanwhile
  EXPECT_EQ(end.message(), "the disk is full");
}

TEST(Processes, theFirstOfSeveralErrorsIsTheOneThatAllAreTold) {
  const JoinedRun run(3);
  std::vector<Status> ends(3);
  onThreads(3, [&](int64_t rank) { ends[rank] = run[rank].end(errorf("of {}", rank)); });
  int inFull = 0;
  for (const Status &end : ends)
    inFull += end.message().starts_with("of ");
  EXPECT_EQ(inFull, 1);
}

TEST(Processes, oneThatGoesWithoutAWordEndsAll) {
  JoinedRun run(3);
  std::atomic<bool> isTold{false};
  run[0].setAbortListener([&](const Status &) { isTold = true; });
  const auto start = Clock::now();
  run.processes[2].reset();
  for (int64_t rank : {0, 1})
    EXPECT_TRUE(fails(run[rank].awaitCause(10s), {"rank 2 (process ", "ended without a word: was it killed"}));
  EXPECT_LT(Clock::now() - start, 5s);
  EXPECT_TRUE(fails(share(run.storeOf(1), "key", "value"), {"ended without a word"}));
  EXPECT_TRUE(fails(run[0].end(Status::ok()), {"rank 0: rank 2 (process "}));
  while (!isTold && Clock::now() - start < 30s)
    std::this_thread::sleep_for(1ms); // the cause is there a moment before the listener is called
  EXPECT_TRUE(isTold);
  bool isLateTold = false; // one that asks afterwards
  run[1].setAbortListener([&](const Status &) { isLateTold = true; });
  EXPECT_TRUE(isLateTold);
  run[0].setAbortListener(nullptr);
}

TEST(Processes, theStoresEndEndsAll) {
  JoinedRun run(2);
  std::jthread stopping([&] { run.store.stop(); });
  EXPECT_TRUE(fails(run[1].awaitCause(10s), {"rank 0, which holds the store at 127.0.0.1:", "ended without a word"}));
  run.processes.clear();
}

TEST(Processes, ranksOfOneMachineAreCounted) {
  const JoinedRun run(3);
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(run[rank].localRank(), rank);
    EXPECT_EQ(run[rank].coreRank(), rank);
    EXPECT_EQ(run[rank].coreSize(), 3);
  }
}

} // namespace
} // namespace mgc::test
