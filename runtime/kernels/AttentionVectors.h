// Vectors as wide as the processor that this translation unit is compiled for, and what attention computes with
// them. Everything here has internal linkage: code for one processor must not be linked into another's.
#pragma once

#include "runtime/random/Philox.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#define MGC_INLINE __attribute__((always_inline)) inline

namespace mgc {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

using Vector = float __attribute__((vector_size(4 * kLanes)));
using Integers = int32_t __attribute__((vector_size(4 * kLanes)));
using Bits = uint32_t __attribute__((vector_size(4 * kLanes)));
using Pairs = uint64_t __attribute__((vector_size(4 * kLanes)));

// From and to any address.
template <typename T = Vector> MGC_INLINE T load(const void *from) {
  T x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}
MGC_INLINE void store(void *to, const Vector &x) { __builtin_memcpy(to, &x, sizeof x); }
MGC_INLINE Vector broadcast(float x) { return x - Vector{}; } // 0 + x would not be x for -0

MGC_INLINE Vector larger(const Vector &x, const Vector &y) { return x > y ? x : y; } // y where x is NaN

constexpr float kRoundToInteger = 12582912.0f; // 1.5 * 2^23
// The series of 2^r, |r| <= 1/2, from the highest power of r to the lowest.
constexpr float kPowerSeries[] = {
    1.534732000e-04f, 1.340015442e-03f, 9.618484415e-03f, 5.550327897e-02f, 2.402264625e-01f, 6.931471825e-01f, 1.0f};

// x <- 2^x for x <= 127, 0 below -126.5, in each of N vectors; 2^n * 2^r with |r| <= 1/2, where adding
// 1.5 * 2^23 rounds to n in the low bits. The polynomial is the minimax one of relative error 1.9e-9. NaN
// stays NaN.
template <int N> MGC_INLINE void powersOfTwo(Vector (&x)[N]) {
  const Vector magic = broadcast(kRoundToInteger), lowest = broadcast(-127.0f);
  Vector shifted[N], series[N];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    x[i] = larger(lowest, x[i]);
    shifted[i] = x[i] + magic;
    x[i] = x[i] - (shifted[i] - magic);
    series[i] = broadcast(kPowerSeries[0]);
  }
#pragma GCC unroll 6
  for (int term = 1; term < 7; ++term)
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i)
      series[i] = series[i] * x[i] + kPowerSeries[term];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i)
    x[i] = series[i] * (Vector)(((Bits)shifted[i] << 23) + (127u << 23));
}

// x <- tanh(x) in each of N vectors: e / (e + 2) with the magnitude's e = exp(2 x) - 1 = 2^n (2^r - 1) + 2^n - 1, of which for small
// x the first term is all there is, so that the relative error stays that of a few roundings. NaN stays NaN.
template <int N> MGC_INLINE void tangents(Vector (&x)[N]) {
  const Vector magic = broadcast(kRoundToInteger), greatest = broadcast(10.0f); // tanh(10) is 1
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    const Bits sign = (Bits)x[i] & 0x80000000u;
    Vector rest = (Vector)((Bits)x[i] ^ sign);
    rest = (rest > greatest ? greatest : rest) * 2.885390082f; // 2 / ln(2)
    const Vector shifted = rest + magic, power = (Vector)(((Bits)shifted << 23) + (127u << 23));
    rest = rest - (shifted - magic);
    Vector series = broadcast(kPowerSeries[0]);
#pragma GCC unroll 5
    for (int term = 1; term < 6; ++term)
      series = series * rest + kPowerSeries[term];
    const Vector e = power * (series * rest) + (power - 1.0f);
    x[i] = (Vector)((Bits)(e / (e + 2.0f)) | sign);
  }
}

// (high, low) words of x * factor: in 64-bit lanes, first the even elements, then the odd ones.
MGC_INLINE void multiplyWide(const Bits &x, uint32_t factor, Bits &high, Bits &low) {
  constexpr uint64_t lowMask = 0xFFFFFFFFu;
  const Pairs even = ((Pairs)x & lowMask) * factor, odd = ((Pairs)x >> 32) * factor;
  high = (Bits)((even >> 32) | (odd & ~lowMask));
  low = (Bits)((even & lowMask) | (odd << 32));
}

// x0 <- philox({x0, x1, x2, x3}, key)[0], in every element.
MGC_INLINE void philoxVector(Bits &x0, Bits x1, Bits x2, Bits x3, uint32_t key0, uint32_t key1) {
  constexpr uint32_t factor0 = kPhiloxFactors[0], factor1 = kPhiloxFactors[1];
  constexpr uint32_t step0 = kPhiloxKeySteps[0], step1 = kPhiloxKeySteps[1];
  Bits high0, low0, high1, low1;
  for (int round = 0; round < 10; ++round) {
    multiplyWide(x0, factor0, high0, low0);
    multiplyWide(x2, factor1, high1, low1);
    x0 = high1 ^ x1 ^ key0, x1 = low1;
    x2 = high0 ^ x3 ^ key1, x3 = low0;
    key0 += step0, key1 += step1;
  }
}

// Exchanges bit S of the index of a vector with that of the index in it, for one pair of vectors.
template <size_t S, size_t... I> MGC_INLINE void exchange(Vector &x, Vector &y, std::index_sequence<I...>) {
  const Vector low = __builtin_shufflevector(x, y, (I & S ? kLanes + (I ^ S) : I)...);
  y = __builtin_shufflevector(x, y, (I & S ? kLanes + I : I | S)...);
  x = low;
}

template <size_t S = kLanes / 2> MGC_INLINE void transpose(Vector (&x)[kLanes]) {
#pragma GCC unroll 16
  for (size_t i = 0; i < kLanes; ++i)
    if (!(i & S))
      exchange<S>(x[i], x[i | S], std::make_index_sequence<kLanes>());
  if constexpr (S > 1)
    transpose<S / 2>(x);
}

} // namespace
} // namespace mgc
