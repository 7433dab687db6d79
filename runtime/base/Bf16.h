// bf16: the upper half of an f32. In memory only; all arithmetic is in f32.
#pragma once

#include <bit>
#include <cstdint>

namespace mgc {

enum class Bf16 : uint16_t {};

// Exact.
constexpr float toFloat(Bf16 value) { return std::bit_cast<float>(uint32_t(value) << 16); }
constexpr float toFloat(float value) { return value; }

// Rounded to nearest, ties to even; beyond the greatest bf16 it is infinity, and NaN stays NaN with its sign.
constexpr Bf16 toBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), isOdd = bits >> 16 & 1;
  const bool isNan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  const uint32_t rounded = isNan ? bits | 0x400000u : bits + 0x7FFFu + isOdd;
  return static_cast<Bf16>(rounded >> 16);
}

// The same for `count` of them, which do not overlap.
void widen(const Bf16 *from, int64_t count, float *to);
void narrow(const float *from, int64_t count, Bf16 *to);

} // namespace mgc
