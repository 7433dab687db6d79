// NCCL: as many ranks as there are devices, four at most, a thread each, on a device of its own.
#include "CudaTest.h"

#include <barrier>
#include <functional>
#include <numeric>
#include <thread>

using namespace mgc;
using namespace mgc::test;
using namespace std::chrono_literals;

namespace {

int64_t worldSize() { return std::min<int64_t>(4, must(cuda().countDevices())); }

// The rank of one thread, with its device, stream and communicator.
struct Rank {
  int64_t index, count;
  plugin::PluginDevice device;
  plugin::Stream stream;
  plugin::Comm comm;

  template <typename T> plugin::DeviceBuffer uploaded(const std::vector<T> &values) {
    const auto bytes = int64_t(values.size() * sizeof(T));
    auto buffer = must(device.allocate(bytes));
    const auto pinned = must(device.allocateHost(bytes));
    std::memcpy(pinned.data(), values.data(), bytes);
    EXPECT_EQ(errorOf(stream.copyIn(buffer.address(), pinned.data(), bytes)), "");
    EXPECT_EQ(errorOf(stream.synchronize(60s)), "");
    return buffer;
  }
  template <typename T> std::vector<T> download(const plugin::DeviceBuffer &buffer) {
    const auto pinned = must(device.allocateHost(buffer.bytes()));
    EXPECT_EQ(errorOf(stream.copyOut(pinned.data(), buffer.address(), buffer.bytes())), "");
    EXPECT_EQ(errorOf(stream.synchronize(60s)), "");
    std::vector<T> values(buffer.bytes() / sizeof(T));
    std::memcpy(values.data(), pinned.data(), buffer.bytes());
    return values;
  }
};

void onAllRanks(const std::function<void(Rank &)> &body) {
  const mgc_comm_id id = must(device().makeCommId());
  const int64_t count = worldSize();
  std::vector<std::thread> threads;
  for (int64_t index = 0; index < count; ++index)
    threads.emplace_back([&, index] {
      auto own = must(cuda().openDevice(int32_t(index)));
      auto stream = must(own.makeStream());
      auto comm = must(own.makeComm(id, count, index, {60s}));
      Rank rank{index, count, std::move(own), std::move(stream), std::move(comm)};
      body(rank);
    });
  for (std::thread &thread : threads)
    thread.join();
}

// Where there is no NCCL nothing of it is tested, which is said; one that does not work is a failure.
class Comm : public testing::Test {
  void SetUp() override {
    const std::string error = errorOf(device().makeCommId());
    for (const char *missing : {"libnccl.so.2 was not found", "this build of the plugin has none"})
      if (error.find(missing) != std::string::npos)
        GTEST_SKIP() << error;
  }
};

TEST_F(Comm, allReduce) {
  onAllRanks([](Rank &rank) {
    const auto buffer = rank.uploaded(std::vector<float>(1000, float(rank.index + 1)));
    const auto total = float(rank.count * (rank.count + 1) / 2);
    ASSERT_EQ(errorOf(rank.stream.allReduce(rank.comm, MGC_SUM, MGC_F32, buffer.address(), buffer.address(), 1000)),
              "");
    EXPECT_EQ(rank.download<float>(buffer), std::vector<float>(1000, total));
    const auto other = rank.uploaded(std::vector<int32_t>(10, int32_t(rank.index * 3)));
    ASSERT_EQ(errorOf(rank.stream.allReduce(rank.comm, MGC_MAX, MGC_I32, other.address(), other.address(), 10)), "");
    EXPECT_EQ(rank.download<int32_t>(other), std::vector<int32_t>(10, int32_t(rank.count * 3 - 3)));
    const auto narrow = rank.uploaded(std::vector<uint16_t>(10, bf16Of(float(rank.index + 1))));
    ASSERT_EQ(errorOf(rank.stream.allReduce(rank.comm, MGC_SUM, MGC_BF16, narrow.address(), narrow.address(), 10)), "");
    EXPECT_EQ(rank.download<uint16_t>(narrow), std::vector<uint16_t>(10, bf16Of(total)));
  });
}

TEST_F(Comm, gatherAndScatter) {
  onAllRanks([](Rank &rank) {
    const auto own = rank.uploaded(std::vector<int32_t>(5, int32_t(rank.index + 1)));
    const auto all = rank.uploaded(std::vector<int32_t>(5 * rank.count));
    ASSERT_EQ(errorOf(rank.stream.allGather(rank.comm, MGC_I32, all.address(), own.address(), 5)), "");
    const auto gathered = rank.download<int32_t>(all);
    for (int64_t i = 0; i < 5 * rank.count; ++i)
      EXPECT_EQ(gathered[i], i / 5 + 1) << i;
    ASSERT_EQ(errorOf(rank.stream.reduceScatter(rank.comm, MGC_SUM, MGC_I32, own.address(), all.address(), 5)), "");
    EXPECT_EQ(rank.download<int32_t>(own), std::vector<int32_t>(5, int32_t(rank.count * (rank.index + 1))));
    const auto mine = rank.uploaded(std::vector<int32_t>(5 * rank.count, int32_t(rank.index)));
    ASSERT_EQ(errorOf(rank.stream.reduceScatter(rank.comm, MGC_MAX, MGC_I32, own.address(), mine.address(), 5)), "");
    EXPECT_EQ(rank.download<int32_t>(own), std::vector<int32_t>(5, int32_t(rank.count - 1)));
  });
}

TEST_F(Comm, ringOfTransfers) {
  onAllRanks([](Rank &rank) {
    const auto own = rank.uploaded(std::vector<int32_t>(100, int32_t(rank.index)));
    const auto other = rank.uploaded(std::vector<int32_t>(100, -1));
    ASSERT_EQ(errorOf(rank.device.beginGroup()), "");
    ASSERT_EQ(errorOf(rank.stream.send(rank.comm, own.address(), 400, (rank.index + 1) % rank.count)), "");
    ASSERT_EQ(errorOf(rank.stream.receive(rank.comm, other.address(), 400, (rank.index + rank.count - 1) % rank.count)),
              "");
    ASSERT_EQ(errorOf(rank.device.endGroup()), "");
    EXPECT_EQ(rank.download<int32_t>(other),
              std::vector<int32_t>(100, int32_t((rank.index + rank.count - 1) % rank.count)));
    EXPECT_EQ(errorOf(rank.comm.check()), "");
  });
}

TEST_F(Comm, collectiveInAGraph) {
  onAllRanks([](Rank &rank) {
    const auto buffer = rank.uploaded(std::vector<int32_t>(1000, 1));
    const auto reduce = [&] {
      return rank.stream.allReduce(rank.comm, MGC_SUM, MGC_I32, buffer.address(), buffer.address(), 1000);
    };
    ASSERT_EQ(errorOf(reduce()), ""); // connections are made
    ASSERT_EQ(errorOf(rank.stream.synchronize(60s)), "");
    ASSERT_EQ(errorOf(rank.stream.beginCapture()), "");
    ASSERT_EQ(errorOf(reduce()), "");
    const auto graph = must(rank.stream.endCapture());
    ASSERT_EQ(errorOf(rank.stream.launch(graph)), "");
    ASSERT_EQ(errorOf(rank.stream.launch(graph)), "");
    EXPECT_EQ(rank.download<int32_t>(buffer),
              std::vector<int32_t>(1000, int32_t(rank.count * rank.count * rank.count)));
  });
}

TEST_F(Comm, othersThatDoNotComeAreWaitedForNoLongerThanSaid) {
  const mgc_comm_id id = must(device().makeCommId());
  const std::string error = errorOf(device().makeComm(id, 2, 0, {500ms}));
  EXPECT_NE(error.find("NCCL communicator of 2, rank 0: joining it: the others have not come within 500 ms"),
            std::string::npos)
      << error;
}

// A collective that one rank never joins ends when this one aborts. No early return: the others are at a barrier.
TEST_F(Comm, abortEndsWhatIsUnderWay) {
  if (worldSize() < 2)
    GTEST_SKIP() << "needs two devices";
  std::barrier<> all(worldSize());
  onAllRanks([&](Rank &rank) {
    const auto buffer = rank.uploaded(std::vector<float>(1000, 1));
    EXPECT_EQ(errorOf(rank.stream.allReduce(rank.comm, MGC_SUM, MGC_F32, buffer.address(), buffer.address(), 1000)),
              "");
    EXPECT_EQ(errorOf(rank.stream.synchronize(60s)), "");
    all.arrive_and_wait();
    if (rank.index > 0) {
      EXPECT_EQ(errorOf(rank.stream.allReduce(rank.comm, MGC_SUM, MGC_F32, buffer.address(), buffer.address(), 1000)),
                "");
      EXPECT_NE(errorOf(rank.stream.synchronize(50ms)).find("has not finished"), std::string::npos);
    }
    all.arrive_and_wait(); // all have begun: a rank that goes would be an error of those that begin later
    rank.device.abort(std::array{rank.comm.raw()});
    EXPECT_EQ(errorOf(rank.stream.synchronize(60s)), "");
    EXPECT_NE(errorOf(rank.comm.check()).find("aborted"), std::string::npos);
    EXPECT_NE(errorOf(rank.stream.send(rank.comm, buffer.address(), 4, 0)).find("aborted"), std::string::npos);
    all.arrive_and_wait();
  });
}

} // namespace
