// The stand-in of libnccl: ranks as threads, and as processes.
#include "test/emulate/cuda/ptx/Numbers.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <functional>
#include <gtest/gtest.h>
#include <nccl.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace {

using mgc::ptx::BFloat;

const bool isSet = [] { return setenv("MGC_EMULATE_CUDA", "delay=300,seed=5", 0) == 0; }();

#define EXPECT_DONE(call) EXPECT_EQ(static_cast<int>(call), 0)

// A rank: its thread's device, communicator and stream.
struct Rank {
  int size, rank;
  ncclComm_t comm = nullptr;
  CUstream stream = nullptr;

  Rank(int size, int rank, const ncclUniqueId &id) : size(size), rank(rank) {
    openDevice();
    EXPECT_DONE(ncclCommInitRank(&comm, size, id, rank));
    EXPECT_DONE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  static void openDevice() {
    CUcontext context = nullptr;
    EXPECT_DONE(cuInit(0));
    EXPECT_DONE(cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT_DONE(cuCtxSetCurrent(context));
  }
  template <typename T> void *upload(const std::vector<T> &values) {
    CUdeviceptr address = 0;
    EXPECT_DONE(cuMemAlloc(&address, values.size() * sizeof(T)));
    EXPECT_DONE(cuMemcpyHtoD(address, values.data(), values.size() * sizeof(T)));
    return reinterpret_cast<void *>(address);
  }
  template <typename T> std::vector<T> download(const void *address, size_t count) {
    std::vector<T> values(count);
    EXPECT_DONE(cuStreamSynchronize(stream));
    EXPECT_DONE(cuMemcpyDtoH(values.data(), reinterpret_cast<CUdeviceptr>(address), count * sizeof(T)));
    return values;
  }
};

void onRanks(int size, const std::function<void(Rank &)> &body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Rank mine(size, rank, id);
      body(mine);
      if (mine.comm) {
        EXPECT_DONE(ncclCommDestroy(mine.comm));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Nccl, AllReduceAddsInTheOrderOfRanks) {
  onRanks(4, [](Rank &mine) {
    const std::vector<float> values[] = {{1e8f, 1}, {1, 2}, {-1e8f, 3}, {1, 4}};
    void *data = mine.upload(values[mine.rank]);
    EXPECT_DONE(ncclAllReduce(data, data, 2, ncclFloat32, ncclSum, mine.comm, mine.stream));
    EXPECT_EQ(mine.download<float>(data, 2), (std::vector<float>{((1e8f + 1) + -1e8f) + 1, 10}));
    EXPECT_DONE(ncclAllReduce(data, data, 2, ncclFloat32, ncclMax, mine.comm, mine.stream));
    EXPECT_EQ(mine.download<float>(data, 2)[1], 10);
  });
}

// 256 + 1 + 1 + 1 in bf16: a sum that is rounded after each step stays 256.
TEST(Nccl, BFloatSumsRoundOnce) {
  onRanks(4, [](Rank &mine) {
    void *data = mine.upload(std::vector<BFloat>{BFloat(mine.rank == 0 ? 256.0f : 1.0f)});
    EXPECT_DONE(ncclAllReduce(data, data, 1, ncclBfloat16, ncclSum, mine.comm, mine.stream));
    EXPECT_EQ(float(mine.download<BFloat>(data, 1)[0]), 260); // 259 lies between 258 and 260, a tie to even
  });
}

TEST(Nccl, GathersAndScatters) {
  onRanks(3, [](Rank &mine) {
    const int32_t r = mine.rank;
    void *part = mine.upload(std::vector<int32_t>{10 * r, 10 * r + 1}), *whole = mine.upload(std::vector<int32_t>(6));
    EXPECT_DONE(ncclAllGather(part, whole, 2, ncclInt32, mine.comm, mine.stream));
    EXPECT_EQ(mine.download<int32_t>(whole, 6), (std::vector<int32_t>{0, 1, 10, 11, 20, 21}));
    EXPECT_DONE(ncclReduceScatter(whole, part, 2, ncclInt32, ncclSum, mine.comm, mine.stream));
    EXPECT_EQ(mine.download<int32_t>(part, 2), (std::vector<int32_t>{30 * r, 30 * r + 3}));
  });
}

// Each sends to the next and receives from the one before: without the group all would wait.
TEST(Nccl, TransfersInAGroup) {
  onRanks(3, [](Rank &mine) {
    void *out = mine.upload(std::vector<int32_t>(100000, mine.rank)),
         *in = mine.upload(std::vector<int32_t>(100000, -1));
    const int next = (mine.rank + 1) % 3, before = (mine.rank + 2) % 3;
    EXPECT_DONE(ncclGroupStart());
    EXPECT_DONE(ncclSend(out, 400000, ncclInt8, next, mine.comm, mine.stream));
    EXPECT_DONE(ncclRecv(in, 400000, ncclInt8, before, mine.comm, mine.stream));
    EXPECT_DONE(ncclGroupEnd());
    EXPECT_EQ(mine.download<int32_t>(in, 100000), std::vector<int32_t>(100000, before));
  });
}

// One rank uses two streams, whose operations start in any order; the communicator keeps the order of the calls.
TEST(Nccl, OperationsKeepTheirOrderOverStreams) {
  onRanks(2, [](Rank &mine) {
    CUstream other = nullptr;
    EXPECT_DONE(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    std::vector<void *> data;
    for (int i = 0; i < 40; ++i) {
      data.push_back(mine.upload(std::vector<float>{float(i)}));
      EXPECT_DONE(ncclAllReduce(data[i], data[i], 1, ncclFloat32, ncclSum, mine.comm,
                                mine.rank && i % 2 ? other : mine.stream));
    }
    EXPECT_DONE(cuStreamSynchronize(other));
    for (int i = 0; i < 40; ++i)
      EXPECT_EQ(mine.download<float>(data[i], 1)[0], 2 * i);
  });
}

TEST(Nccl, GraphsReplayCollectives) {
  onRanks(2, [](Rank &mine) {
    void *data = mine.upload(std::vector<float>{1});
    EXPECT_DONE(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, mine.comm,
                              mine.stream)); // before and after the capture, too
    CUgraph graph = nullptr;
    CUgraphExec runnable = nullptr;
    EXPECT_DONE(cuStreamBeginCapture(mine.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < 2; ++i)
      EXPECT_DONE(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, mine.comm, mine.stream));
    EXPECT_DONE(cuStreamEndCapture(mine.stream, &graph));
    EXPECT_DONE(cuGraphInstantiate(&runnable, graph, 0));
    for (int i = 0; i < 3; ++i)
      EXPECT_DONE(cuGraphLaunch(runnable, mine.stream));
    EXPECT_DONE(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, mine.comm, mine.stream));
    EXPECT_EQ(mine.download<float>(data, 1)[0], 256);
    EXPECT_DONE(cuGraphExecDestroy(runnable));
    EXPECT_DONE(cuGraphDestroy(graph));
  });
}

ncclResult_t stateOf(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  EXPECT_DONE(ncclCommGetAsyncError(comm, &state));
  return state;
}

void waitUntil(const std::function<bool()> &condition) {
  for (int i = 0; i < 5000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

ncclResult_t waitFor(ncclComm_t comm, ncclResult_t past = ncclInProgress) {
  waitUntil([=] { return stateOf(comm) != past; });
  return stateOf(comm);
}

// Ranks that begin different things find out, and hold their streams until they abort.
TEST(Nccl, RanksThatDisagreeFail) {
  onRanks(2, [](Rank &mine) {
    void *data = mine.upload(std::vector<float>(8));
    const size_t count = mine.rank == 0 ? 4 : 3;
    EXPECT_DONE(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, mine.comm, mine.stream));
    EXPECT_EQ(waitFor(mine.comm, ncclSuccess), ncclRemoteError);
    const std::string message = ncclGetLastError(mine.comm);
    EXPECT_NE(message.find("rank 0 begins an all-reduce of 4 elements"), std::string::npos) << message;
    EXPECT_EQ(cuStreamQuery(mine.stream), CUDA_ERROR_NOT_READY);
    EXPECT_DONE(ncclCommAbort(mine.comm));
    mine.comm = nullptr;
    EXPECT_DONE(cuStreamSynchronize(mine.stream));
  });
}

TEST(Nccl, JoiningNeedNotBlock) {
  Rank::openDevice();
  ncclUniqueId id;
  EXPECT_DONE(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t first = nullptr, second = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&first, 2, id, 0, &config), ncclInProgress);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(stateOf(first), ncclInProgress);
  EXPECT_EQ(ncclCommInitRankConfig(&second, 2, id, 1, &config), ncclInProgress);
  EXPECT_EQ(waitFor(first), ncclSuccess);
  EXPECT_EQ(waitFor(second), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(first), ncclInProgress);
  EXPECT_EQ(ncclCommFinalize(second), ncclInProgress);
  EXPECT_EQ(waitFor(first), ncclSuccess);
  EXPECT_EQ(waitFor(second), ncclSuccess);
  EXPECT_DONE(ncclCommDestroy(first));
  EXPECT_DONE(ncclCommDestroy(second));
}

TEST(Nccl, WrongIdentitiesAndRanksAreRefused) {
  Rank::openDevice();
  ncclUniqueId id, none = {"nobody"};
  EXPECT_DONE(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr, same = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, none, 0), ncclSystemError);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  EXPECT_EQ(ncclCommInitRankConfig(&same, 2, id, 0, &config), ncclInProgress);
  waitUntil([=] { return stateOf(comm) != ncclInProgress || stateOf(same) != ncclInProgress; });
  ncclComm_t refused = stateOf(comm) == ncclInProgress ? same : comm; // one of the two is
  EXPECT_EQ(stateOf(refused), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(refused)).find("a second time"), std::string::npos);
  EXPECT_DONE(ncclCommAbort(comm));
  EXPECT_DONE(ncclCommAbort(same));
}

// This binary again, as rank 1 of 2.
pid_t startPeer(const ncclUniqueId &id, const char *what) {
  setenv("MGC_TEST_NCCL", id.internal, 1);
  char self[] = "/proc/self/exe";
  std::string filter = std::string("--gtest_filter=NcclPeer.DISABLED_") + what;
  char all[] = "--gtest_also_run_disabled_tests";
  char *arguments[] = {self, filter.data(), all, nullptr};
  pid_t process = 0;
  EXPECT_DONE(posix_spawn(&process, self, nullptr, nullptr, arguments, environ));
  unsetenv("MGC_TEST_NCCL");
  return process;
}

ncclUniqueId givenIdentity() {
  ncclUniqueId id = {};
  std::strncpy(id.internal, std::getenv("MGC_TEST_NCCL"), sizeof id.internal - 1);
  return id;
}

// The test that the other process runs.
TEST(NcclPeer, DISABLED_Adds) {
  Rank mine(2, 1, givenIdentity());
  void *data = mine.upload(std::vector<float>{40});
  EXPECT_DONE(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, mine.comm, mine.stream));
  EXPECT_EQ(mine.download<float>(data, 1)[0], 42);
  EXPECT_DONE(ncclCommDestroy(mine.comm));
}

TEST(NcclPeer, DISABLED_Dies) {
  Rank mine(2, 1, givenIdentity());
  for (;;)
    pause();
}

TEST(NcclProcesses, ReduceTogether) {
  ncclUniqueId id;
  EXPECT_DONE(ncclGetUniqueId(&id));
  const pid_t peer = startPeer(id, "Adds");
  Rank mine(2, 0, id);
  void *data = mine.upload(std::vector<float>{2});
  EXPECT_DONE(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, mine.comm, mine.stream));
  EXPECT_EQ(mine.download<float>(data, 1)[0], 42);
  EXPECT_DONE(ncclCommDestroy(mine.comm));
  int status = -1;
  waitpid(peer, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(NcclProcesses, ADeadRankIsNoticed) {
  ncclUniqueId id;
  EXPECT_DONE(ncclGetUniqueId(&id));
  const pid_t peer = startPeer(id, "Dies");
  Rank mine(2, 0, id);
  void *data = mine.upload(std::vector<float>{2});
  EXPECT_DONE(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, mine.comm, mine.stream));
  kill(peer, SIGKILL);
  EXPECT_EQ(waitFor(mine.comm, ncclSuccess), ncclRemoteError);
  EXPECT_STREQ(ncclGetLastError(mine.comm), "rank 1 has gone");
  EXPECT_DONE(ncclCommAbort(mine.comm));
  EXPECT_DONE(cuStreamSynchronize(mine.stream));
  waitpid(peer, nullptr, 0);
}

} // namespace
