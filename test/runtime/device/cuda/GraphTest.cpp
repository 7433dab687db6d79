// Graphs: captured once, launched again and again, over several streams.
#include "CudaTest.h"

#include <thread>

using namespace mgc;
using namespace mgc::test;
using namespace std::chrono_literals;

namespace {

class Graphs : public CudaTest {
protected:
  void add(const plugin::Stream &on, mgc_address to, mgc_address from, int64_t value) {
    const mgc_address operands[] = {to, from};
    ASSERT_EQ(errorOf(on.launch(kernel, operands, {{value}})), "");
  }
  plugin::Module module = testModule();
  plugin::Kernel kernel = must(module.find("add"));
};

TEST_F(Graphs, captureDoesNothingLaunchDoesItEachTime) {
  const auto buffer = uploaded(std::vector<int32_t>(1000));
  ASSERT_EQ(errorOf(stream.beginCapture()), "");
  add(stream, buffer.address(), buffer.address(), 3);
  const auto graph = must(stream.endCapture());
  EXPECT_EQ(download<int32_t>(buffer.address(), 1000), std::vector<int32_t>(1000, 0));
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(errorOf(stream.launch(graph)), "");
  EXPECT_EQ(download<int32_t>(buffer.address(), 1000), std::vector<int32_t>(1000, 15));
}

// main: a = 1; a + 1 -> b ; wait for side; b + c -> d   side: waits for a; a + 10 -> c
TEST_F(Graphs, streamsJoinByEvents) {
  const auto side = must(device().makeStream());
  const auto forked = must(device().makeEvent()), joined = must(device().makeEvent());
  const auto a = uploaded(std::vector<int32_t>(1000)), b = uploaded(std::vector<int32_t>(1000)),
             c = uploaded(std::vector<int32_t>(1000)), d = uploaded(std::vector<int32_t>(1000));
  ASSERT_EQ(errorOf(stream.beginCapture()), "");
  add(stream, a.address(), a.address(), 1);
  ASSERT_EQ(errorOf(stream.record(forked)), "");
  ASSERT_EQ(errorOf(side.wait(forked)), "");
  add(side, c.address(), a.address(), 10);
  ASSERT_EQ(errorOf(side.record(joined)), "");
  add(stream, b.address(), a.address(), 1);
  ASSERT_EQ(errorOf(stream.wait(joined)), "");
  const mgc_address sources[] = {b.address(), c.address()};
  ASSERT_EQ(errorOf(stream.combine(MGC_SUM, MGC_I32, d.address(), sources, 1000)), "");
  const auto graph = must(stream.endCapture());
  for (int round = 1; round <= 10; ++round) {
    ASSERT_EQ(errorOf(stream.launch(graph)), "");
    ASSERT_EQ(download<int32_t>(d.address(), 1000), std::vector<int32_t>(1000, 2 * round + 11)) << round;
  }
}

// The operations of a step: copies from pinned memory, whose content is that of the launch, fills, products, marks.
TEST_F(Graphs, hostMemoryIsReadWhenTheGraphRuns) {
  const auto pinned = must(device().allocateHost(4096));
  auto *host = reinterpret_cast<int32_t *>(pinned.data());
  const auto buffer = uploaded(std::vector<int32_t>(1000, 77));
  ASSERT_EQ(errorOf(stream.beginCapture()), "");
  ASSERT_EQ(errorOf(stream.fill(buffer.address(), 0, 4000)), "");
  ASSERT_EQ(errorOf(stream.copyIn(buffer.address() + 4, host, 8)), "");
  add(stream, buffer.address(), buffer.address(), 1);
  ASSERT_EQ(errorOf(stream.copyOut(host + 8, buffer.address(), 16)), "");
  ASSERT_EQ(errorOf(stream.mark(reinterpret_cast<uint32_t *>(host + 16), 5)), "");
  const auto graph = must(stream.endCapture());
  for (int32_t round = 0; round < 3; ++round) {
    host[0] = round;
    host[1] = 10 * round;
    host[16] = 0;
    ASSERT_EQ(errorOf(stream.launch(graph)), "");
    ASSERT_EQ(errorOf(stream.synchronize(10s)), "");
    EXPECT_EQ(host[8], 1);
    EXPECT_EQ(host[9], round + 1);
    EXPECT_EQ(host[10], 10 * round + 1);
    EXPECT_EQ(host[11], 1);
    EXPECT_EQ(host[16], 5);
  }
}

TEST_F(Graphs, otherThreadsAreNotHindered) {
  ASSERT_EQ(errorOf(stream.beginCapture()), "");
  std::thread([] {
    const auto other = must(device().makeStream());
    const auto buffer = must(device().allocate(64));
    ASSERT_EQ(errorOf(other.fill(buffer.address(), 1, 64)), "");
    ASSERT_EQ(errorOf(other.synchronize(10s)), "");
    ASSERT_EQ(errorOf(device().check()), "");
  }).join();
  EXPECT_EQ(errorOf(stream.endCapture()), "");
}

TEST_F(Graphs, waitingForACaptureIsRefused) {
  ASSERT_EQ(errorOf(stream.beginCapture()), "");
  EXPECT_NE(errorOf(stream.synchronize(1s)).find("this cannot be part of a graph"), std::string::npos);
  EXPECT_NE(errorOf(stream.endCapture()).find("the first error says what"), std::string::npos);
  EXPECT_EQ(errorOf(stream.synchronize(1s)), "") << "the stream is as before";
}

TEST_F(Graphs, streamThatDoesNotJoinIsRefused) {
  const auto side = must(device().makeStream());
  const auto forked = must(device().makeEvent());
  const auto buffer = uploaded(std::vector<int32_t>(1000));
  ASSERT_EQ(errorOf(stream.beginCapture()), "");
  ASSERT_EQ(errorOf(stream.record(forked)), "");
  ASSERT_EQ(errorOf(side.wait(forked)), "");
  add(side, buffer.address(), buffer.address(), 1);
  EXPECT_NE(errorOf(stream.endCapture()).find("wait for its last event"), std::string::npos);
}

} // namespace
