// Order: within a stream, across streams by events, and what the host sees of it.
#include "CudaTest.h"

#include <thread>

using namespace mgc;
using namespace mgc::test;
using namespace std::chrono_literals;

namespace {

class Streams : public CudaTest {
protected:
  // Some milliseconds pass on `on` before what follows.
  void delay(const plugin::Stream &on, int64_t rounds = 20'000) {
    const mgc_address operands[] = {scratch.address()};
    ASSERT_EQ(errorOf(on.launch(spin, operands, {{rounds}})), "");
  }
  plugin::Module module = testModule();
  plugin::Kernel spin = must(module.find("spin"));
  plugin::DeviceBuffer scratch = uploaded(std::vector<int32_t>(1));
};

TEST_F(Streams, oneAfterTheOther) {
  const auto buffer = uploaded(std::vector<uint8_t>(4));
  for (uint8_t value = 1; value <= 50; ++value)
    ASSERT_EQ(errorOf(stream.fill(buffer.address(), value, 4)), "");
  EXPECT_EQ(download<uint8_t>(buffer.address(), 4), std::vector<uint8_t>(4, 50));
}

// The second stream may not copy before the first has written; the first may not write again before the copy.
TEST_F(Streams, eventsOrderStreams) {
  const auto other = must(device().makeStream(true));
  const auto written = must(device().makeEvent()), taken = must(device().makeEvent());
  const auto from = uploaded(std::vector<uint8_t>(1000)), to = uploaded(std::vector<uint8_t>(20 * 1000));
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(errorOf(stream.wait(taken)), "");
    delay(stream, 500);
    ASSERT_EQ(errorOf(stream.fill(from.address(), uint8_t(round + 1), 1000)), "");
    ASSERT_EQ(errorOf(stream.record(written)), "");
    ASSERT_EQ(errorOf(other.wait(written)), "");
    ASSERT_EQ(errorOf(other.copy(to.address() + round * 1000, from.address(), 1000)), "");
    ASSERT_EQ(errorOf(other.record(taken)), "");
  }
  ASSERT_EQ(errorOf(other.synchronize(10s)), "");
  const auto seen = download<uint8_t>(to.address(), 20 * 1000);
  for (int i = 0; i < 20 * 1000; ++i)
    ASSERT_EQ(seen[i], i / 1000 + 1) << i;
}

TEST_F(Streams, streamsOfOneDeviceByManyThreads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([thread] {
      const auto own = must(device().makeStream());
      const auto buffer = must(device().allocate(64));
      const auto pinned = must(device().allocateHost(64));
      for (int round = 0; round < 50; ++round) {
        ASSERT_EQ(errorOf(own.fill(buffer.address(), uint8_t(thread * 50 + round), 64)), "");
        ASSERT_EQ(errorOf(own.copyOut(pinned.data(), buffer.address(), 64)), "");
        ASSERT_EQ(errorOf(own.synchronize()), "");
        ASSERT_EQ(pinned.data()[63], std::byte(thread * 50 + round));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(Streams, eventTellsWhenItIsDone) {
  const auto event = must(device().makeEvent());
  EXPECT_TRUE(must(event.isDone())) << "never recorded";
  delay(stream, 200'000);
  ASSERT_EQ(errorOf(stream.record(event)), "");
  EXPECT_FALSE(must(event.isDone()));
  ASSERT_EQ(errorOf(stream.synchronize(60s)), "");
  EXPECT_TRUE(must(event.isDone()));
}

TEST_F(Streams, waitForAnEventThatWasNeverRecorded) {
  const auto event = must(device().makeEvent());
  EXPECT_EQ(errorOf(stream.wait(event)), "");
  EXPECT_EQ(errorOf(stream.synchronize(10s)), "");
}

TEST_F(Streams, timeBetweenEvents) {
  const auto begin = must(device().makeEvent(true)), end = must(device().makeEvent(true));
  ASSERT_EQ(errorOf(stream.record(begin)), "");
  delay(stream);
  ASSERT_EQ(errorOf(stream.record(end)), "");
  ASSERT_EQ(errorOf(stream.synchronize(60s)), "");
  EXPECT_GT(must(milliseconds(begin, end)), 0.1);
  const auto untimed = must(device().makeEvent());
  EXPECT_NE(errorOf(milliseconds(begin, untimed)).find("events that were made without one"), std::string::npos);
}

TEST_F(Streams, hostWaitsNoLongerThanItSays) {
  delay(stream, 1'000'000);
  EXPECT_NE(errorOf(stream.synchronize(1ms)).find("a stream has not finished within 1 ms"), std::string::npos);
  EXPECT_EQ(errorOf(stream.synchronize(120s)), "") << "the device has not failed";
}

// A mark shows up when the stream comes there: not before the work ahead of it, whatever comes behind.
TEST_F(Streams, marksFollowTheStream) {
  const auto pinned = must(device().allocateHost(64));
  auto *mark = reinterpret_cast<uint32_t *>(pinned.data()) + 1;
  const auto read = [&] { return *static_cast<volatile uint32_t *>(mark); };
  ASSERT_EQ(errorOf(stream.mark(mark, 1)), "");
  ASSERT_EQ(errorOf(stream.synchronize(10s)), "");
  EXPECT_EQ(read(), 1u);
  delay(stream, 300'000);
  ASSERT_EQ(errorOf(stream.mark(mark, 2)), "");
  EXPECT_EQ(read(), 1u);
  ASSERT_EQ(errorOf(stream.synchronize(60s)), "");
  EXPECT_EQ(read(), 2u);
  EXPECT_EQ(reinterpret_cast<uint32_t *>(pinned.data())[0], 0u);
  EXPECT_EQ(reinterpret_cast<uint32_t *>(pinned.data())[2], 0u);
}

} // namespace
