#include "plan/Checks.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::plan {

bool verifyAxesAt(Checks &checks, const Place &place, const Axes &axes) {
  return checks.violations.expect(verifyAxes(checks.plan.mesh, axes), place);
}

bool verifyStageList(Checks &checks, const Place &place, const std::vector<int64_t> &stages) {
  const bool isAscending = std::ranges::is_sorted(stages, std::less_equal<>()); // so that all of them open one group
  return checks.violations.expect(
      isAscending &&
          std::ranges::all_of(stages, [&](int64_t stage) { return inRange(stage, checks.plan.stages.size()); }),
      place, "[{}] must list stages below {}, each once, in ascending order", fmt::join(stages, ", "),
      checks.plan.stages.size());
}

} // namespace mgc::plan
