#include "plan/prove/VerifyParts.h"

#include <fmt/ranges.h>
#include <set>
#include <tuple>

namespace mgc::plan {

void verifyDisjoint(Checks &checks, const Place &place, std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, [](const Interval &i) { return std::tie(i.begin, i.end, i.owner); });
  for (size_t i = 1; i < intervals.size(); ++i) {
    const Interval &left = intervals[i - 1], &right = intervals[i];
    checks.violations.expect(left.end <= right.begin, place, "{} [{}, {}) and {} [{}, {}) overlap",
                             left.owner, left.begin, left.end, right.owner, right.begin, right.end);
  }
}

bool verifyAxesAt(Checks &checks, const Place &place, const Axes &axes) {
  return checks.violations.expect(verifyAxes(checks.plan.mesh, axes), place);
}

bool verifyAxesApart(Checks &checks, const Place &place, std::initializer_list<const Axes *> lists) {
  Axes all;
  for (const Axes *axes : lists) {
    if (!verifyAxesAt(checks, place, *axes))
      return false;
    all.insert(all.end(), axes->begin(), axes->end());
  }
  return verifyAxesAt(checks, place, all);
}

bool verifyStageList(Checks &checks, const Place &place, const std::vector<int64_t> &stages) {
  std::set<int64_t> seen;
  for (int64_t stage : stages)
    if (!inRange(stage, checks.plan.stages.size()) || !seen.insert(stage).second) {
      checks.violations.add(place, "[{}] must list stages below {}, each once", fmt::join(stages, ", "),
                            checks.plan.stages.size());
      return false;
    }
  return true;
}

Checked localSize(Checks &checks, const Place &place, int64_t size, const Axes &axes) {
  if (!verifyAxesAt(checks, place, axes))
    return std::nullopt;
  int64_t ranks = groupSize(checks.plan.mesh, axes);
  bool divides = checks.violations.expect(size > 0 && size % ranks == 0, place,
                                          "size = {} must be positive and divide over the {} ranks of [{}]",
                                          size, ranks, fmt::join(axes, ", "));
  return divides ? Checked(size / ranks) : std::nullopt;
}

} // namespace mgc::plan
