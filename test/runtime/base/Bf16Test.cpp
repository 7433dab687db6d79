// Conversions between f32 and bf16, against their definition.
#include "runtime/base/Bf16.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace mgc {
namespace {

float fromBits(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t bitsOf(float value) { return std::bit_cast<uint32_t>(value); }

// The nearer of the two neighbours; of two that are equally near, the one whose last bit is 0.
float nearest(float value) {
  const uint32_t below = bitsOf(value) & 0xFFFF0000u, above = below + 0x10000u;
  const double low = fromBits(below), distance = std::abs(double(value) - low);
  // One above the greatest is what would come after it, though the format says infinity.
  const double high = std::isinf(fromBits(above)) ? std::copysign(0x1p128, low) : fromBits(above);
  const double other = std::abs(high - value);
  const bool takesLow = distance < other || (distance == other && (below >> 16 & 1) == 0);
  return takesLow ? fromBits(below) : fromBits(above);
}

TEST(Bf16, everyValueComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = toFloat(static_cast<Bf16>(bits));
    EXPECT_EQ(bitsOf(value), bits << 16);
    if (!std::isnan(value)) {
      EXPECT_EQ(uint32_t(toBf16(value)), bits);
    }
  }
}

TEST(Bf16, roundsToNearestEven) {
  for (uint32_t upper = 0; upper < 0x10000; upper += 7)
    for (uint32_t lower : {0x0u, 0x1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      if (const float value = fromBits(upper << 16 | lower); std::isfinite(value)) {
        EXPECT_EQ(toFloat(toBf16(value)), nearest(value)) << std::hex << upper << " " << lower;
      }
}

TEST(Bf16, knownRoundings) {
  EXPECT_EQ(toFloat(toBf16(1 + 0x1p-8f)), 1) << "a tie, down to even";
  EXPECT_EQ(toFloat(toBf16(1 + 3 * 0x1p-8f)), 1 + 0x1p-6f) << "a tie, up to even";
  EXPECT_EQ(toFloat(toBf16(1 + 0x1p-8f + 0x1p-20f)), 1 + 0x1p-7f);
  EXPECT_EQ(toFloat(toBf16(std::numeric_limits<float>::max())), std::numeric_limits<float>::infinity());
  EXPECT_EQ(toFloat(toBf16(-0.0f)), 0);
  EXPECT_TRUE(std::signbit(toFloat(toBf16(-0.0f))));
}

TEST(Bf16, nanStaysNan) {
  for (uint32_t bits : {0x7F800001u, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu, 0x7FC00000u}) {
    const float back = toFloat(toBf16(fromBits(bits)));
    EXPECT_TRUE(std::isnan(back)) << std::hex << bits;
    EXPECT_EQ(std::signbit(back), bits >> 31 == 1);
  }
}

TEST(Bf16, rowsAreTheSameAsOneByOne) {
  std::vector<float> values(1003), back(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(1 + float(i) / 977, int(i % 200) - 100) * (i % 3 ? 1 : -1);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  std::vector<Bf16> narrowed(values.size());
  narrow(values.data(), int64_t(values.size()), narrowed.data());
  widen(narrowed.data(), int64_t(values.size()), back.data());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(narrowed[i], toBf16(values[i]));
    EXPECT_EQ(bitsOf(back[i]), bitsOf(toFloat(narrowed[i])));
  }
}

} // namespace
} // namespace mgc
