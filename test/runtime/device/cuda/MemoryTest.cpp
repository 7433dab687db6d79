// Memory, copies and fills.
#include "CudaTest.h"

#include <numeric>

using namespace mgc;
using namespace mgc::test;

namespace {

std::vector<int32_t> counting(int64_t count) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

class Memory : public CudaTest {};

TEST_F(Memory, deviceIsDescribed) {
  const mgc_device_facts facts = must(device().describe());
  EXPECT_NE(std::string(facts.name).find("GPU 0 ("), std::string::npos) << facts.name;
  EXPECT_GE(facts.capability, 80);
  EXPECT_GT(facts.multiprocessors, 0);
  EXPECT_GT(facts.total_bytes, 0);
  EXPECT_LE(facts.free_bytes, facts.total_bytes);
  EXPECT_NE(std::string(facts.versions).find("driver "), std::string::npos) << facts.versions;
  EXPECT_NE(std::string(facts.versions).find("cuBLASLt "), std::string::npos) << facts.versions;
  EXPECT_NE(std::string(facts.products).find("multiprocessors, cuBLASLt "), std::string::npos) << facts.products;
  EXPECT_EQ(std::string(facts.products).find("GPU 0"), std::string::npos) << "it is of all devices of the kind";
  EXPECT_EQ(errorOf(device().check()), "");
}

TEST_F(Memory, thereAndBack) {
  for (const int64_t count : {1, 3, 4096, 100'003}) {
    const std::vector<int32_t> values = counting(count);
    const auto buffer = uploaded(values);
    EXPECT_EQ(download<int32_t>(buffer.address(), count), values);
  }
}

TEST_F(Memory, allocationsAreAligned) {
  const auto first = must(device().allocate(1)), second = must(device().allocate(1));
  EXPECT_EQ(first.address() % 256, 0u);
  EXPECT_EQ(second.address() % 256, 0u);
  EXPECT_NE(first.address(), second.address());
}

TEST_F(Memory, pinnedMemoryIsZero) {
  const auto pinned = must(device().allocateHost(10'000));
  for (int64_t i = 0; i < pinned.bytes(); ++i)
    ASSERT_EQ(pinned.data()[i], std::byte(0)) << i;
}

// Copies from the process's own memory read it when the stream comes there, and those to it write it.
TEST_F(Memory, pinsMemoryOfTheProcess) {
  std::vector<int32_t> values(4096, 1);
  auto *data = reinterpret_cast<std::byte *>(values.data());
  const auto bytes = int64_t(values.size() * sizeof(int32_t));
  {
    const auto pinned = must(device().pin(data, bytes));
    EXPECT_EQ(pinned.address(), data);
    const auto buffer = must(device().allocate(bytes));
    values[1] = 7;
    ASSERT_EQ(errorOf(stream.copyIn(buffer.address(), data, bytes / 2)), "");
    ASSERT_EQ(errorOf(stream.copyOut(data + bytes / 2, buffer.address(), bytes / 2)), "");
    ASSERT_EQ(errorOf(stream.synchronize()), "");
    EXPECT_EQ(values[2049], 7);
  }
  EXPECT_EQ(values[1], 7) << "it stays the process's own";
  const auto again = must(device().pin(data, bytes));
}

TEST_F(Memory, copyOnDeviceBetweenInnerAddresses) {
  const auto from = uploaded(counting(100));
  const auto to = uploaded(std::vector<int32_t>(100));
  ASSERT_EQ(errorOf(stream.copy(to.address() + 40, from.address() + 80, 60)), "");
  const auto seen = download<int32_t>(to.address(), 100);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(seen[i], i >= 10 && i < 25 ? i + 11 : 0) << i;
}

// 3 rows of 2 elements out of rows of 5, into rows of 4.
TEST_F(Memory, copyOfRows) {
  const auto from = uploaded(counting(15));
  const auto to = uploaded(std::vector<int32_t>(12));
  ASSERT_EQ(errorOf(stream.copyRows(to.address() + 4, 16, from.address() + 8, 20, 8, 3)), "");
  EXPECT_EQ(download<int32_t>(to.address(), 12), (std::vector<int32_t>{0, 3, 4, 0, 0, 8, 9, 0, 0, 13, 14, 0}));
  EXPECT_EQ(errorOf(stream.copyRows(to.address(), 16, from.address(), 20, 0, 3)), "");
  EXPECT_EQ(errorOf(stream.copyRows(to.address(), 16, from.address(), 20, 8, 0)), "");
}

// The driver's own copy of rows takes pitches below 2 GiB.
TEST_F(Memory, copyOfRowsFarApart) {
  constexpr int64_t pitch = int64_t(1) << 31;
  const auto rows = must(device().allocate(pitch + 8)), to = uploaded(std::vector<int32_t>(4)),
             values = uploaded(counting(4));
  ASSERT_EQ(errorOf(stream.copyRows(rows.address(), pitch, values.address(), 8, 8, 2)), "");
  ASSERT_EQ(errorOf(stream.copyRows(to.address(), 8, rows.address(), pitch, 8, 2)), "");
  EXPECT_EQ(download<int32_t>(to.address(), 4), counting(4));
  ASSERT_EQ(errorOf(stream.copyRows(to.address(), pitch, values.address() + 8, pitch, 8, 1)), "");
  EXPECT_EQ(download<int32_t>(to.address(), 4), (std::vector<int32_t>{3, 4, 3, 4}));
}

TEST_F(Memory, fillOfBytes) {
  const auto buffer = uploaded(std::vector<uint8_t>(20, 7));
  ASSERT_EQ(errorOf(stream.fill(buffer.address() + 3, 0xFF, 11)), "");
  const auto seen = download<uint8_t>(buffer.address(), 20);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(seen[i], i >= 3 && i < 14 ? 0xFF : 7) << i;
}

TEST_F(Memory, tooMuchIsRefusedWithWhatIsFree) {
  const std::string error = errorOf(device().allocate(int64_t(1) << 50));
  for (const char *part :
       {"GPU 0 (", "1125899906842624 bytes (1048576.00 GiB) are needed", " are free of ", "what would fit"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_NE(errorOf(device().allocate(0)).find("an allocation of 0 bytes"), std::string::npos);
  EXPECT_EQ(errorOf(device().check()), "") << "a refusal is no failure of the device";
}

TEST_F(Memory, freedMemoryIsFreeAgain) {
  const int64_t before = must(device().describe()).free_bytes;
  constexpr int64_t kBytes = 16 << 20;
  for (int i = 0; i < 4; ++i) {
    const auto taken = must(device().allocate(kBytes));
    EXPECT_LE(must(device().describe()).free_bytes, before - kBytes);
  }
  EXPECT_EQ(must(device().describe()).free_bytes, before);
}

TEST_F(Memory, otherDeviceIsRefused) {
  EXPECT_NE(errorOf(cuda().openDevice(1000)).find("there is no GPU 1000: the driver sees "), std::string::npos);
  EXPECT_NE(errorOf(cuda().openDevice(-1)).find("there is no GPU -1"), std::string::npos);
}

} // namespace
