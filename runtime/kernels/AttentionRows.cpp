// See AttentionRows.h. Vectors of 16 floats are spelled out; the compiler cuts them to what the processor
// has.
#include "runtime/kernels/AttentionRows.h"

#include <cmath>
#include <limits>

// One version per processor generation, chosen when the program is loaded. Sanitizers do not work that early.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define MGC_SANITIZED 1
#endif
#endif
#if defined(__x86_64__) && !defined(MGC_SANITIZED) && !defined(__SANITIZE_ADDRESS__) &&                      \
    !defined(__SANITIZE_THREAD__)
#define MGC_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MGC_CLONES
#endif

namespace mgc {

namespace {

using Vector = float __attribute__((vector_size(4 * kAttentionVector), may_alias));
using Integers = int32_t __attribute__((vector_size(4 * kAttentionVector)));
using Bits = uint32_t __attribute__((vector_size(4 * kAttentionVector), may_alias));
using Pairs = uint64_t __attribute__((vector_size(4 * kAttentionVector)));

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t vectors(int64_t keys) { return (keys + kAttentionVector - 1) / kAttentionVector; }

// x <- exp(x) for x <= 88, 0 below -87; within 2 units in the last place. By 2^n * e^r, |r| <= ln(2) / 2,
// with the Taylor series of e^r; adding 1.5 * 2^23 rounds to n in the low bits. NaN stays NaN.
__attribute__((always_inline)) inline void exponential(Vector &x) {
  const Vector zero = {}, magic = zero + 12582912.0f, lowest = zero - 87.0f, highest = zero + 88.0f;
  const Integers hidden = x < lowest;
  x = hidden ? lowest : x;
  x = x > highest ? highest : x;
  const Vector shifted = x * 1.44269504088896341f + magic, n = shifted - magic;
  const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector series = zero + 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const Bits power = ((Bits)shifted << 23) + (127u << 23);
  x = hidden ? zero : series * (Vector)power;
}

// (high, low) words of x * factor: in 64-bit lanes, first the even elements, then the odd ones.
__attribute__((always_inline)) inline void multiplyWide(const Bits &x, uint32_t factor, Bits &high,
                                                        Bits &low) {
  constexpr uint64_t lowMask = 0xFFFFFFFFu;
  const Pairs even = ((Pairs)x & lowMask) * factor, odd = ((Pairs)x >> 32) * factor;
  high = (Bits)((even >> 32) | (odd & ~lowMask));
  low = (Bits)((even & lowMask) | (odd << 32));
}

// word <- philox({c0, c1, c2, word}, key)[0], in every element.
__attribute__((always_inline)) inline void philoxVector(uint32_t c0, uint32_t c1, uint32_t c2, Bits &word,
                                                        PhiloxKey key) {
  Bits x0 = Bits{} + c0, x1 = Bits{} + c1, x2 = Bits{} + c2, x3 = word, high0, low0, high1, low1;
  for (int round = 0; round < 10; ++round) {
    multiplyWide(x0, kPhiloxFactors[0], high0, low0);
    multiplyWide(x2, kPhiloxFactors[1], high1, low1);
    x0 = high1 ^ x1 ^ key[0], x1 = low1;
    x2 = high0 ^ x3 ^ key[1], x3 = low0;
    key[0] += kPhiloxKeySteps[0], key[1] += kPhiloxKeySteps[1];
  }
  word = x0;
}

} // namespace

MGC_CLONES void hideKeys(float *row, int64_t keys, const int32_t *keyPositions, int32_t first, int32_t last) {
  for (int64_t j = 0; j < keys && keyPositions; ++j)
    row[j] = first <= keyPositions[j] && keyPositions[j] <= last ? row[j] : -kInfinity;
  for (int64_t j = keys; j % kAttentionVector; ++j)
    row[j] = -kInfinity;
}

MGC_CLONES float softmaxStep(float *row, int64_t keys, SoftmaxState &state) {
  Vector *scores = reinterpret_cast<Vector *>(row);
  Vector maxima = Vector{} - kInfinity;
  for (int64_t j = 0; j < vectors(keys); ++j)
    maxima = scores[j] > maxima ? scores[j] : maxima;
  float maximum = state.maximum;
  for (int64_t lane = 0; lane < kAttentionVector; ++lane)
    maximum = maxima[lane] > maximum ? maxima[lane] : maximum;
  const bool blind = maximum == -kInfinity; // no key visible so far: exp(-inf - 0) = 0, and NaN stays NaN
  const float shift = blind ? 0 : maximum;
  Vector sums = {};
  for (int64_t j = 0; j < vectors(keys); ++j) {
    Vector x = scores[j] - shift;
    exponential(x);
    scores[j] = x;
    sums += x;
  }
  const float factor = blind ? 1 : std::exp(state.maximum - maximum);
  float sum = state.sum * factor;
  for (int64_t lane = 0; lane < kAttentionVector; ++lane)
    sum += sums[lane];
  state = {maximum, sum};
  return factor;
}

MGC_CLONES void softmaxGradient(float *scores, float *gradients, int64_t keys, float shift, float delta,
                                const float *factors) {
  Vector *s = reinterpret_cast<Vector *>(scores), *dp = reinterpret_cast<Vector *>(gradients);
  const Vector *f = reinterpret_cast<const Vector *>(factors);
  for (int64_t j = 0; j < vectors(keys); ++j) {
    Vector p = s[j] - shift;
    exponential(p);
    s[j] = f ? p * f[j] : p;
    dp[j] = p * ((f ? dp[j] * f[j] : dp[j]) - delta);
  }
}

MGC_CLONES void dropoutFactors(const DropoutRow &row, const int32_t *keyPositions, int64_t keys,
                               float *factors) {
  const Bits *positions = reinterpret_cast<const Bits *>(keyPositions);
  Vector *result = reinterpret_cast<Vector *>(factors);
  const bool none = row.threshold > 0xFFFFFFFFu;
  const uint32_t threshold = none ? 0 : static_cast<uint32_t>(row.threshold);
  const Vector zero = {}, kept = zero + (none ? 0.0f : row.keep);
  for (int64_t j = 0; j < vectors(keys); ++j) {
    Bits word = positions[j];
    philoxVector(row.sample, row.head, row.query, word, row.key);
    result[j] = word >= threshold ? kept : zero;
  }
}

MGC_CLONES void multiplyRow(float *row, const float *factors, int64_t keys) {
  for (int64_t j = 0; j < keys; ++j)
    row[j] *= factors[j];
}

MGC_CLONES void scaleRow(const float *row, float factor, float *result, int64_t count) {
  for (int64_t j = 0; j < count; ++j)
    result[j] = row[j] * factor;
}

} // namespace mgc
