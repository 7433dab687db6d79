#include "plan/prove/VerifyParts.h"

#include <fmt/ranges.h>
#include <tuple>

namespace mgc::plan {

void verifyDisjoint(Checks &checks, const Place &place, std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, [](const Interval &i) { return std::tie(i.begin, i.end, i.owner); });
  for (size_t i = 1; i < intervals.size(); ++i) {
    const Interval &left = intervals[i - 1], &right = intervals[i];
    checks.violations.expect(left.end <= right.begin, place, "{} [{}, {}) and {} [{}, {}) overlap", left.owner,
                             left.begin, left.end, right.owner, right.begin, right.end);
  }
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

bool verifyRepeats(Checks &checks, const Place &place, const std::vector<Repeat> &repeats, size_t items, int64_t most) {
  int64_t next = 0;
  Checked runs = static_cast<int64_t>(items);
  Place list = place.field("repeats");
  for (size_t i = 0; i < repeats.size(); ++i) {
    const auto &[begin, end, count] = repeats[i];
    Place here = list.element(i);
    if (!checks.violations.expect(begin >= next && begin < end && end <= static_cast<int64_t>(items), here,
                                  "[{}, {}) is no part of the {} items from item {} on, where the repeat before "
                                  "it ends",
                                  begin, end, items, next) ||
        !checks.violations.expect(count >= 1, here, "count = {}, expected at least 1", count))
      return false;
    runs = checkedAdd(runs, checkedMultiply(end - begin, count - 1));
    next = end;
  }
  return checks.violations.expect(runs && *runs <= most, list, "the items run {} times, expected at most {}",
                                  runs ? fmt::to_string(*runs) : "more than 2^63", most);
}

bool fitsInEach(int64_t begin, int64_t stride, int64_t iterations, Checked bytes, int64_t limit) {
  const Checked last = checkedAdd(begin, checkedMultiply(stride, iterations - 1));
  return fitsInside(begin, bytes, limit) && last && fitsInside(*last, bytes, limit);
}

Checked localSize(Checks &checks, const Place &place, int64_t size, const Axes &axes) {
  if (!verifyAxesAt(checks, place, axes))
    return std::nullopt;
  int64_t ranks = groupSize(checks.plan.mesh, axes);
  bool divides = checks.violations.expect(size > 0 && size % ranks == 0, place,
                                          "size = {} must be positive and divide over the {} ranks of [{}]", size,
                                          ranks, fmt::join(axes, ", "));
  return divides ? Checked(size / ranks) : std::nullopt;
}

} // namespace mgc::plan
