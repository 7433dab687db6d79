// The order in which an epoch visits the samples, without a table: any position of any epoch at once.
#pragma once

#include <cstdint>

namespace mgc {

// The sample at `position` of an epoch: for fixed seed and epoch a permutation of [0, samples), with no
// memory of how far training has come. A Feistel network on the next power of four, keyed by Philox, walked
// until it lands inside: Black, Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002.
int64_t shuffledSample(uint64_t seed, int64_t epoch, int64_t position, int64_t samples);

} // namespace mgc
