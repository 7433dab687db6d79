#include "plan/RelativeBuckets.h"

#include <algorithm>
#include <cmath>

namespace mgc::plan {

static int64_t bucketsOfOneSide(int64_t buckets, bool causal) { return causal ? buckets : buckets / 2; }

Status verifyBuckets(int64_t buckets, int64_t maxDistance, bool causal) {
  const int64_t side = bucketsOfOneSide(buckets, causal);
  if (side < 2)
    return errorf("{} buckets; expected {} or more", buckets, causal ? 2 : 4);
  if (maxDistance <= side / 2 || maxDistance > kMostBiasDistance)
    return errorf("{} buckets up to a distance of {}; expected a distance from {} to {}", buckets, maxDistance,
                  side / 2 + 1, kMostBiasDistance);
  return Status::ok();
}

void bucketsOfDistances(int64_t buckets, int64_t maxDistance, bool causal, std::span<int32_t> to) {
  const int64_t side = bucketsOfOneSide(buckets, causal), exact = side / 2;
  const auto scale = static_cast<float>(std::log(static_cast<double>(maxDistance) / static_cast<double>(exact)));
  for (int64_t distance = 0; distance <= maxDistance; ++distance) {
    int64_t bucket = distance;
    if (distance >= exact) {
      const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) / scale;
      bucket = exact + static_cast<int64_t>(ratio * static_cast<float>(side - exact));
    }
    bucket = std::min(bucket, side - 1);
    to[maxDistance - distance] = static_cast<int32_t>(bucket);
    if (distance > 0) // causal, such keys are hidden, and count as the query's own
      to[maxDistance + distance] = static_cast<int32_t>(causal ? 0 : side + bucket);
  }
}

} // namespace mgc::plan
