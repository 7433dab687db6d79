// Copies the values of parameters from the memory of one plan's ranks into that of another's, where they lie alike: those of a training
// for its evaluation.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

namespace mgc {

class WeightCopier {
public:
  // Both plans' parameters are expanded (plan/Expand.h); the plans outlive it. An error: parameters or buckets of the one are not those of
  // the other.
  static Result<WeightCopier> between(const plan::Plan &from, const plan::Plan &to);
  // Copies one rank's values; may run on several threads, for a rank each.
  void copy(int64_t rank, const std::byte *from, std::byte *to) const;

private:
  WeightCopier(const plan::Plan &from, const plan::Plan &to) : from_(from), to_(to) {}
  const plan::Plan &from_, &to_;
};

} // namespace mgc
