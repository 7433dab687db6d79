// The 16-bit float types in memory, and what PTX prescribes for NaN.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <immintrin.h>

namespace mgc::ptx {

// Results that are NaN have this form, whatever NaN went in.
inline float canonical(float value) { return value == value ? value : std::bit_cast<float>(0x7FFFFFFFu); }
inline double canonical(double value) { return value; }

// `value` + `rest` in f64, to odd in the last bit, so that a second rounding to fewer bits is as one rounding of the sum.
inline double roundToOdd(double value, double rest) {
  uint64_t bits = std::bit_cast<uint64_t>(value);
  if (rest == 0 || !std::isfinite(value) || bits & 1)
    return value;
  bool away = (rest > 0) == (value > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}

// a * b + c of values whose product is exact in f64.
inline double fusedToOdd(double a, double b, double c) {
  double product = a * b, sum = product + c;
  double part = sum - product;
  return roundToOdd(sum, (product - (sum - part)) + (c - part));
}

// To f32, odd in the last bit if it is not exact: for a second rounding to a 16-bit type.
inline float narrowToOdd(double value) {
  auto nearest = static_cast<float>(value);
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (!std::isfinite(nearest) || double(nearest) == value || bits & 1)
    return nearest;
  bool away = std::fabs(value) > std::fabs(double(nearest));
  return std::bit_cast<float>(away ? bits + 1 : bits - 1);
}

// The upper half of an f32, rounded to nearest even.
struct BFloat {
  uint16_t bits;
  BFloat() = default;
  explicit BFloat(float value) {
    uint32_t wide = std::bit_cast<uint32_t>(value);
    bits = value == value ? static_cast<uint16_t>((wide + 0x7FFF + (wide >> 16 & 1)) >> 16) : 0x7FFF;
  }
  explicit BFloat(double value) : BFloat(narrowToOdd(value)) {}
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

struct Half {
  uint16_t bits;
  Half() = default;
  explicit Half(float value) : bits(value == value ? _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT) : 0x7FFF) {}
  explicit Half(double value) : Half(narrowToOdd(value)) {}
  operator float() const { return _cvtsh_ss(bits); }
};

} // namespace mgc::ptx
