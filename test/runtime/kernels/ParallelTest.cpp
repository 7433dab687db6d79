// Every task runs once, and no lane has two tasks at a time.
#include "runtime/kernels/Parallel.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

using namespace mgc;

static void check(int threads, int64_t lanes, int64_t tasks) {
  std::vector<int> runs(tasks);
  std::vector<std::atomic<int>> busy(lanes);
  std::atomic<int> clashes = 0;
  parallelFor(threads, lanes, tasks, [&](int64_t task, int64_t lane) {
    ASSERT_LT(lane, lanes);
    clashes += busy[lane].exchange(1);
    ++runs[task];
    busy[lane] = 0;
  });
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(runs, std::vector<int>(tasks, 1)) << threads << " threads, " << lanes << " lanes";
}

TEST(Parallel, everyTaskOnce) {
  for (int threads : {0, 1, 2, 5})
    for (int64_t lanes : {1, 3, 8})
      for (int64_t tasks : {0, 1, 2, 100})
        check(threads, lanes, tasks);
}

TEST(Parallel, aTaskMayWaitForTheOneBeforeIt) {
  for (int threads : {1, 2, 5}) {
    std::atomic<int64_t> done = 0;
    parallelFor(threads, 8, 200, [&](int64_t task, int64_t) {
      for (int64_t at; (at = done) < task;)
        done.wait(at);
      ++done;
      done.notify_all();
    });
    EXPECT_EQ(done, 200);
  }
}

TEST(Parallel, ranksInThreadsDoNotMix) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([] {
      for (int repeat = 0; repeat < 50; ++repeat)
        check(2, 4, 20);
    });
  for (std::thread &rank : ranks)
    rank.join();
}
