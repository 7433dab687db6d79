// The values of parameters, from the memory of one plan's ranks into that of another's: of the same mesh, model and stages, with
// other buckets.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

#include <span>

namespace mgc {

class WeightCopier {
public:
  // Both plans' parameters are expanded (plan/Expand.h); the plans outlive it. An error: a rank keeps other parameters in the one
  // than in the other, in other parts or of another type.
  static Result<WeightCopier> between(const plan::Plan &from, const plan::Plan &to);
  // Copies one rank's values; may run on several threads, for a rank each.
  void copy(int64_t rank, const std::byte *from, std::byte *to) const;

private:
  struct Pair { // one parameter's places in both plans
    const plan::Parameter *from = nullptr, *to = nullptr;
    const plan::Parameter::Place *source = nullptr, *target = nullptr;
  };
  WeightCopier(const plan::Plan &from, const plan::Plan &to) : from_(from), to_(to), ofStage_(to.stages.size()) {}
  Status add(const plan::Parameter &from, const plan::Parameter &to);
  Status verify(const Pair &pair) const;

  const plan::Plan &from_, &to_;
  std::vector<std::vector<Pair>> ofStage_;
};

} // namespace mgc
