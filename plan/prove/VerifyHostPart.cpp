// See VerifyParts.h.
#include "plan/prove/VerifyParts.h"

namespace mgc::plan {

bool verifyHostPart(Checks &checks, const StagePlan &stage, const Bucket &bucket, const State &state, int64_t elements,
                    const Place &place, std::vector<Interval> &persistent) {
  if (state.role == StateRole::master || state.role == StateRole::optimizer)
    for (const State &other : bucket.states)
      checks.violations.expect((other.role != StateRole::master && other.role != StateRole::optimizer) ||
                                   other.hostElements == state.hostElements,
                               place, "'{}' has {} elements on the host, '{}' {}; expected as many", state.name,
                               state.hostElements, other.name, other.hostElements);
  else
    checks.violations.expect(
        state.hostElements == 0, place,
        "'{}' has {} elements on the host; expected none of a state that others than the update use", state.name,
        state.hostElements);
  if (!checks.violations.expect(state.hostElements >= 0 && state.hostElements <= elements, place,
                                "'{}' has {} elements on the host of {}", state.name, state.hostElements, elements))
    return false;
  const Checked bytes = checkedMultiply(state.hostElements, sizeInBytes(state.type));
  const bool fits = state.hostOffset >= stage.bytes && fitsInside(state.hostOffset, bytes, stage.addresses());
  const auto isInRegion = [&](const Region &region) {
    return region.kind == kHostOptimizer && region.offset <= state.hostOffset &&
           state.hostOffset + *bytes <= region.offset + region.bytes;
  };
  if (state.hostElements == 0)
    checks.violations.expect(state.hostOffset == 0, place, "'{}' has hostOffset {} and nothing there; expected 0",
                             state.name, state.hostOffset);
  else if (checks.violations.expect(fits && state.hostOffset % kAlignment == 0 && *bytes % kAlignment == 0 &&
                                        std::ranges::any_of(stage.regions, isInRegion),
                                    place,
                                    "{} elements of '{}' at {} must be inside a region '{}' of the host's arena, which "
                                    "has the addresses [{}, {}), and begin and end at multiples of {}",
                                    state.hostElements, state.name, state.hostOffset, kHostOptimizer, stage.bytes,
                                    stage.addresses(), kAlignment))
    persistent.push_back({state.hostOffset, state.hostOffset + *bytes,
                          fmt::format("{} of bucket '{}' on the host", state.name, bucket.name)});
  const bool isAllThere = state.hostElements == elements && elements > 0;
  checks.violations.expect(!isAllThere || state.offset == 0, place, "'{}' is on the host and has offset {}; expected 0",
                           state.name, state.offset);
  return !isAllThere;
}

} // namespace mgc::plan
