// normalRange of Philox.h, many draws at once.
//
// The numbers are those of normalAt, to the bit: that of a seed must not depend on how fast it was drawn. A block
// of draws is computed with polynomials that a compiler turns into vector code. They and the library's functions
// are within 2^-46 of the true value (rounding; the series end below 2^-56), so where all doubles that close to
// the result round to one float, it is the one normalAt gives; where not, about once in 2^19 draws, it is drawn
// again by normalAt's code.
#include "runtime/random/Philox.h"

#include <algorithm>
#include <bit>

namespace mgc {

namespace {

constexpr uint64_t kBlocks = 64, kDraws = 4 * kBlocks; // blocks of four normals; draws of a batch
constexpr size_t kPairs = kDraws / 2;
constexpr double kCloseness = 1.0 / (uint64_t(1) << 44);
constexpr double kRounder = 6755399441055744.0; // 1.5 * 2^52: adding it rounds to a whole number, in the low bits

// c[0] + c[1] z + c[2] z^2 ...
template <size_t n> double polynomial(const std::array<double, n> &c, double z) {
  double sum = c[n - 1];
  for (size_t i = n - 1; i-- > 0;)
    sum = sum * z + c[i];
  return sum;
}

// For positive normal numbers: u = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)).
double logarithm(double u) {
  constexpr std::array series = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                                 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
  constexpr uint64_t one = 0x3FF0000000000000u, rootOfHalf = 0x3FE6A09E667F3BCDu;
  constexpr uint64_t mantissa = 0x000FFFFFFFFFFFFFu, exponentOf2To52 = 0x4330000000000000u;
  constexpr double bias = 4503599627370496.0 + 1023, ln2 = 0.693147180559945309417;
  const uint64_t shifted = std::bit_cast<uint64_t>(u) + (one - rootOfHalf);
  const double e = std::bit_cast<double>((shifted >> 52) | exponentOf2To52) - bias;
  const double m = std::bit_cast<double>((shifted & mantissa) + rootOfHalf);
  const double s = (m - 1) / (m + 1), z = s * s;
  return e * ln2 + (2 * s + 2 * s * z * polynomial(series, z));
}

struct SineCosine {
  double sine, cosine;
};

// For [0, 2 pi]: angle = q pi / 2 + r with |r| <= pi / 4, pi / 2 in two parts of which q times the first is exact.
SineCosine sineCosine(double angle) {
  constexpr std::array sines = {-1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
                                -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  constexpr std::array cosines = {-1.0 / 2,
                                  1.0 / 24,
                                  -1.0 / 720,
                                  1.0 / 40320,
                                  -1.0 / 3628800,
                                  1.0 / 479001600,
                                  -1.0 / 87178291200,
                                  1.0 / 20922789888000,
                                  -1.0 / 6402373705728000};
  constexpr double halfPi = 1.5707963267341256, halfPiRest = 6.077100506506192e-11, inverse = 0.636619772367581343;
  const double shifted = angle * inverse + kRounder, n = shifted - kRounder;
  const uint64_t q = std::bit_cast<uint64_t>(shifted);
  const double r = (angle - n * halfPi) - n * halfPiRest, z = r * r;
  const auto sine = std::bit_cast<uint64_t>(r + r * z * polynomial(sines, z));
  const auto cosine = std::bit_cast<uint64_t>(1 + z * polynomial(cosines, z));
  const uint64_t swap = -(q & 1); // all ones in odd quadrants
  return {std::bit_cast<double>(((sine & ~swap) | (cosine & swap)) ^ ((q & 2) << 62)),
          std::bit_cast<double>(((cosine & ~swap) | (sine & swap)) ^ (((q + 1) & 2) << 62))};
}

struct Batch {
  std::array<uint32_t, kPairs> radiusWords, angleWords;
  std::array<double, kPairs> cosines, sines; // the normals
};

void drawWords(uint64_t seed, uint64_t nameHash, uint64_t firstBlock, Batch &batch) {
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const PhiloxWords words = detail::normalWords(seed, nameHash, firstBlock + i);
    batch.radiusWords[2 * i] = words[0], batch.radiusWords[2 * i + 1] = words[2];
    batch.angleWords[2 * i] = words[1], batch.angleWords[2 * i + 1] = words[3];
  }
}

void computeNormals(double std, Batch &batch) {
  for (size_t i = 0; i < kPairs; ++i) {
    const double radius = std::sqrt(-2.0 * logarithm(detail::uniform(batch.radiusWords[i])));
    const SineCosine direction = sineCosine(detail::kTurn * detail::uniform(batch.angleWords[i]));
    batch.cosines[i] = std * (radius * direction.cosine);
    batch.sines[i] = std * (radius * direction.sine);
  }
}

bool isClear(double value) {
  return static_cast<float>(value - value * kCloseness) == static_cast<float>(value + value * kCloseness);
}

// Whether all floats are certain.
bool writeFloats(const Batch &batch, float *out) {
  int unclear = 0;
  for (size_t i = 0; i < kPairs; ++i) {
    out[2 * i] = static_cast<float>(batch.cosines[i]);
    out[2 * i + 1] = static_cast<float>(batch.sines[i]);
    unclear += !isClear(batch.cosines[i]) + !isClear(batch.sines[i]);
  }
  return unclear == 0;
}

void drawOneByOne(uint64_t seed, uint64_t nameHash, uint64_t begin, uint64_t count, double std, float *out) {
  for (uint64_t i = 0; i < count;) {
    const std::array<double, 4> normals = detail::normalBlock(seed, nameHash, (begin + i) / 4);
    for (uint64_t lane = (begin + i) % 4; lane < 4 && i < count; ++lane, ++i)
      out[i] = static_cast<float>(std * normals[lane]);
  }
}

} // namespace

void normalRange(uint64_t seed, uint64_t nameHash, uint64_t begin, uint64_t count, double std, float *out) {
  const uint64_t head = std::min(count, (4 - begin % 4) % 4);
  drawOneByOne(seed, nameHash, begin, head, std, out);
  uint64_t done = head;
  for (Batch batch; count - done >= kDraws; done += kDraws) {
    drawWords(seed, nameHash, (begin + done) / 4, batch);
    computeNormals(std, batch);
    if (!writeFloats(batch, out + done))
      drawOneByOne(seed, nameHash, begin + done, kDraws, std, out + done);
  }
  drawOneByOne(seed, nameHash, begin + done, count - done, std, out + done);
}

} // namespace mgc
