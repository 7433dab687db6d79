// See VerifyPositions.h.
#include "plan/prove/VerifyPositions.h"

namespace mgc::plan {

// Where images are read, positions are theirs without those that are added for the ranks of tp, or those of features.
void verifyPositions(Checks &checks, const Parameter &parameter, const Place &place) {
  const Plan &plan = checks.plan;
  checks.violations.expect(!parameter.ofEncoder || plan.encoderLength > 0, place,
                           "'{}' is of an encoder, and the plan has none", parameter.name);
  const auto isOneOf = [&](auto... lengths) { return ((parameter.positions == lengths) || ...); };
  const bool isKnown = plan.encoderLength == 0 ? isOneOf(0)
                       : readsImages(plan)     ? isOneOf(0, plan.images.positions(), plan.images.features())
                                               : isOneOf(0, plan.encoderLength);
  checks.violations.expect(isKnown, place,
                           "'{}' meets {} positions of a sample; expected those of a sequence of the plan",
                           parameter.name, parameter.positions);
}

} // namespace mgc::plan
