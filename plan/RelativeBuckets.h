// Buckets of the distance from a query to a key: the rows of a learned table of biases (T5's relative positions).
//   in:  n buckets, the distance m from which on all share the last one, whether attention is causal
//   out: the bucket of each distance
// Causal, the keys before a query have all n' = n buckets; else they have the first n' = n / 2, and those behind it the next n'.
// Distances below e = n' / 2 have a bucket each, longer ones share it by their logarithms: e + floor(ln(d / e) / ln(m / e) (n' - e)).
//
//   n' = 8, m = 32:  distance  0  1  2  3  4 .. 6  7 .. 11  12 .. 19  20 ..
//                    bucket    0  1  2  3    4        5         6       7
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>

namespace mgc::plan {

inline constexpr int64_t kMostBiasDistance = 1 << 16; // tables of distances are small

// Whether each direction has two buckets or more, and m is beyond what has a bucket of its own and no more than the above.
Status verifyBuckets(int64_t buckets, int64_t maxDistance, bool causal);

// Distances of which the table knows the buckets: key - query from -m to m.
constexpr int64_t distancesOf(int64_t maxDistance) { return 2 * maxDistance + 1; }

// The bucket of each, beginning at -m; those beyond an end have the bucket of the end. In: verifyBuckets. The logarithms are those of
// floats, as in the models' own implementation: what lies on the border of two buckets falls on the same side.
void bucketsOfDistances(int64_t buckets, int64_t maxDistance, bool causal, std::span<int32_t> to);

} // namespace mgc::plan
