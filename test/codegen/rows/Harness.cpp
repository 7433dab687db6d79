#include "test/codegen/rows/Harness.h"

#include "plan/Plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace mgc::rowgen::test {

static constexpr uint32_t kGuardBits = 0x7fc0dead; // a NaN: reading it shows up too

static float guardWord() {
  float word;
  std::memcpy(&word, &kGuardBits, 4);
  return word;
}

Buffer::Buffer(size_t size, float fill) : words_(size + 2 * kGuard, guardWord()), bytes_(size * 4) {
  std::fill(floats(), floats() + size, fill);
}
Buffer::Buffer(const std::vector<float> &values) : Buffer(values.size()) {
  std::copy(values.begin(), values.end(), floats());
}
Buffer::Buffer(const std::vector<int32_t> &values) : Buffer(values.size()) {
  std::copy(values.begin(), values.end(), ints());
}

Buffer::Buffer(const std::vector<uint16_t> &values) : Buffer((values.size() + 1) / 2, guardWord()) {
  bytes_ = values.size() * 2;
  std::copy(values.begin(), values.end(), halves());
}

bool Buffer::guardsIntact() const {
  const auto *bytes = reinterpret_cast<const uint8_t *>(words_.data());
  const auto *guard = reinterpret_cast<const uint8_t *>(&kGuardBits);
  for (size_t byte = 0; byte < words_.size() * 4; ++byte) {
    bool isElement = byte >= kGuard * 4 && byte < kGuard * 4 + bytes_;
    if (!isElement && bytes[byte] != guard[byte % 4])
      return false;
  }
  return true;
}

bool Buffer::sameBits(const Buffer &other) const {
  return words_.size() == other.words_.size() &&
         std::memcmp(words_.data(), other.words_.data(), words_.size() * 4) == 0;
}

// From its address to the end of its last row.
static int64_t spanOf(const plan::RowKernel::Operand &operand) {
  return plan::OperandInfo{"", operand.bytes, operand.use, operand.rowBytes, operand.rowStride}.span().value();
}

void Library::expectNeeds(size_t kernel, const int64_t *needs, const std::vector<Buffer *> &buffers,
                          size_t scalars) const {
  const std::string &symbol = symbols_[kernel];
  const KernelInfo &info = infos_[kernel];
  ASSERT_NE(needs, nullptr) << symbol;
  std::vector<int64_t> expected = {info.range, info.scalars, int64_t(buffers.size())};
  for (const auto &[use, bytes, rowBytes, rowStride, counted] : info.operands)
    expected.insert(expected.end(), {int64_t(use) + (counted ? plan::kCountedUse : 0), bytes, rowBytes, rowStride});
  EXPECT_EQ(std::vector(needs, needs + 3 + 4 * needs[2]), expected) << symbol;
  EXPECT_LE(info.scalars, int64_t(scalars)) << symbol;
  for (size_t i = 0; i < std::min(buffers.size(), info.operands.size()); ++i)
    EXPECT_LE(spanOf(info.operands[i]), int64_t(buffers[i]->bytes())) << symbol << ", operand " << i;
}

void runOne(const RowGraph &graph, std::vector<Buffer *> buffers, std::vector<int64_t> scalars) {
  Library library({{"kernel", graph}});
  library.run(0, std::move(buffers), std::move(scalars));
}

float fromBf16(uint16_t bits) {
  uint32_t word = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

// The neighbours of a number are what cutting gives, and the next away from zero; beyond the largest lies 2^128, which is
// infinity.
uint16_t toBf16(float value) {
  uint32_t word;
  std::memcpy(&word, &value, 4);
  uint16_t below = uint16_t(word >> 16), above = uint16_t(below + 1);
  if (std::isnan(value))
    return below | 0x40;
  if (fromBf16(below) == value)
    return below;
  double next = std::isinf(fromBf16(above)) ? std::copysign(std::ldexp(1, 128), value) : fromBf16(above);
  double toBelow = std::abs(double(value) - fromBf16(below)), toAbove = std::abs(next - double(value));
  return toBelow < toAbove || (toBelow == toAbove && below % 2 == 0) ? below : above;
}

std::vector<uint16_t> toBf16(const std::vector<float> &values) {
  std::vector<uint16_t> result;
  for (float value : values)
    result.push_back(toBf16(value));
  return result;
}

std::vector<float> randomFloats(size_t size, unsigned seed, float low, float high) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(size);
  for (float &value : values)
    value = uniform(random);
  return values;
}

std::vector<int32_t> randomInts(size_t size, unsigned seed, int32_t low, int32_t high) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int32_t> uniform(low, high);
  std::vector<int32_t> values(size);
  for (int32_t &value : values)
    value = uniform(random);
  return values;
}

void expectClose(Buffer &actual, const std::vector<double> &expected, double tolerance, const std::string &what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i]))
      continue;
    if (std::isinf(expected[i]) && double(actual[i]) == expected[i])
      continue;
    ASSERT_LE(std::abs(actual[i] - expected[i]), tolerance * std::max(1.0, std::abs(expected[i])))
        << what << " at " << i << ": " << actual[i] << ", expected " << expected[i];
  }
}

} // namespace mgc::rowgen::test
