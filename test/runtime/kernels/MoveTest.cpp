// Every byte of a move is written, and none outside it: whole lines and not, one part and several, in cache and around
// it.
#include "runtime/kernels/Move.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

using namespace mgc;

namespace {

constexpr int64_t kMargin = 128;
constexpr int64_t kOffsets[] = {0, 4, 60};
constexpr int64_t kSizes[] = {0, 4, 100, 4096, (1 << 20) + 12, (20 << 20) + 36};

std::vector<std::byte> numbers(int64_t bytes) {
  std::vector<std::byte> values(bytes);
  for (int64_t i = 0; i < bytes; ++i)
    values[i] = static_cast<std::byte>(1 + i % 251);
  return values;
}

} // namespace

TEST(Move, fillZero) {
  for (int threads : {1, 3})
    for (int64_t offset : kOffsets)
      for (int64_t bytes : kSizes) {
        std::vector<std::byte> memory = numbers(bytes + 2 * kMargin), expected = memory;
        fillZero(threads, memory.data() + kMargin + offset, bytes);
        std::fill_n(expected.begin() + kMargin + offset, bytes, std::byte{0});
        EXPECT_TRUE(memory == expected) << threads << " threads, offset " << offset << ", " << bytes << " bytes";
      }
}

static void checkCopy(int threads, int64_t offset, RowCopy copy) {
  const int64_t bytes = copy.rows * copy.rowBytes;
  const std::vector<std::byte> from = numbers(copy.rows * copy.pitchBytes);
  std::vector<std::byte> memory(bytes + 2 * kMargin, std::byte{0}), expected = memory;
  copyRows(threads, memory.data() + kMargin + offset, from.data(), copy);
  for (int64_t row = 0; row < copy.rows; ++row)
    std::copy_n(from.begin() + row * copy.pitchBytes, copy.rowBytes,
                expected.begin() + kMargin + offset + row * copy.rowBytes);
  EXPECT_TRUE(memory == expected) << threads << " threads, offset " << offset << ", " << copy.rows << " rows of "
                                  << copy.rowBytes << " bytes";
}

TEST(Move, copyRows) {
  for (int threads : {1, 3})
    for (int64_t offset : kOffsets) {
      for (int64_t bytes : kSizes)
        checkCopy(threads, offset, {1, bytes, bytes});
      checkCopy(threads, offset, {1000, 12, 36});
      checkCopy(threads, offset, {7, (1 << 18) + 4, (1 << 19) + 8});
      checkCopy(threads, offset, {5, (4 << 20) + 4, (8 << 20) + 8}); // around the cache
    }
}

TEST(Move, rowsApartInBoth) {
  for (int threads : {1, 3}) {
    const RowCopy copy = {5, (1 << 18) + 4, (1 << 19) + 8, (1 << 19) + 64};
    const std::vector<std::byte> from = numbers(copy.rows * copy.pitchBytes);
    std::vector<std::byte> memory(copy.rows * copy.toPitchBytes, std::byte{0}), expected = memory;
    copyRows(threads, memory.data(), from.data(), copy);
    for (int64_t row = 0; row < copy.rows; ++row)
      std::copy_n(from.begin() + row * copy.pitchBytes, copy.rowBytes, expected.begin() + row * copy.toPitchBytes);
    EXPECT_TRUE(memory == expected) << threads << " threads";
  }
}
