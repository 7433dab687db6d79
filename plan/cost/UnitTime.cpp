// See UnitTime.h.
#include "plan/cost/UnitTime.h"

#include "plan/Expand.h"

#include <algorithm>
#include <deque>

namespace mgc::cost {

namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>; // bytes of the rank's allocation

// Without the frame: a unit's collective has none that others use.
Ranges bytesOf(const plan::Plan &plan, const plan::Call &call) {
  const plan::Program &program = plan.programs[call.program];
  Ranges bytes;
  for (size_t i = 0; i < call.segments.size(); ++i)
    if (call.segments[i].slot < 0 && static_cast<int64_t>(i) != program.frame)
      bytes.emplace_back(call.segments[i].offset, call.segments[i].offset + program.segmentBytes[i]);
  return bytes;
}

bool meet(const Ranges &some, const Ranges &others) {
  return std::ranges::any_of(some, [&](const auto &a) {
    return std::ranges::any_of(
        others, [&](const auto &b) { return std::max(a.first, b.first) < std::min(a.second, b.second); });
  });
}

struct PendingUnit {
  Ranges bytes;
  SecondsByUse left = {};
};

void hide(double seconds, std::deque<PendingUnit> &pending, ProgramTime &change) {
  for (PendingUnit &one : pending)
    for (size_t use = 0; use < one.left.size(); ++use) {
      const double part = std::min(seconds, one.left[use]);
      seconds -= part;
      one.left[use] -= part;
      change.exposed[use] -= part;
      change.hidden[use] += part;
    }
}

} // namespace

ProgramTime hiddenUnits(const plan::Plan &plan, const plan::StagePlan &stage, const plan::Chunk &chunk,
                        const std::vector<ProgramTime> &programs) {
  ProgramTime change;
  const auto isUnit = [&](const plan::Call &call) { return isOfUnit(stage, call); };
  if (!leavesCoresToProducts(plan.target) || std::ranges::none_of(chunk.calls, isUnit))
    return change;
  std::deque<PendingUnit> pending;
  for (const plan::Call &call : plan::expandedCalls(chunk)) {
    const ProgramTime &time = programs[call.program];
    const Ranges bytes = bytesOf(plan, call);
    const auto last =
        std::find_if(pending.rbegin(), pending.rend(), [&](const PendingUnit &one) { return meet(one.bytes, bytes); });
    pending.erase(pending.begin(), last.base());
    if (isUnit(call) && total(time.exposed) > 0)
      pending.push_back({bytes, time.exposed});
    else
      hide(std::max(0.0, time.products + time.attention - total(time.hidden)), pending, change);
  }
  return change;
}

} // namespace mgc::cost
