// See Progress.h.
#include "plan/prove/Progress.h"

#include "plan/play/PlanLists.h"
#include "plan/play/Player.h"
#include "plan/prove/Meetings.h"

#include <algorithm>

namespace mgc::plan {

namespace {

using Kind = ScheduleStep::Kind;
using schedule::HeldStage;

constexpr int64_t kMostRounds = int64_t(1) << 20; // rounds that are played

// Steps take no time: what remains is which of them wait for which.
schedule::PlayLists listsOf(const Plan &plan, const Meetings &meetings) {
  schedule::PlayCosts nothing;
  for (const StagePlan &stage : plan.stages)
    nothing.chunks.emplace_back(stage.chunks.size());
  schedule::PlayLists lists = schedule::listsOf(plan, nothing);
  lists.groups = meetings.groups;
  for (size_t s = 0; s < lists.stages.size(); ++s)
    for (size_t i = 0; i < lists.stages[s].steps.size(); ++i)
      if (const ScheduleStep &step = plan.stages[s].schedule[i]; step.kind == Kind::run)
        lists.stages[s].steps[i].meetings = meetings.ofChunks[s][step.chunk];
  return lists;
}

// Why stages stand still. In: by stage, where it stands.
class Deadlock {
public:
  Deadlock(const Plan &plan, const std::vector<HeldStage> &held) : plan_(plan), held_(held) {}

  // The chain of waits from a stuck stage on, into a cycle or to its end.
  std::string describe() const {
    const int64_t first = std::ranges::find(held_, false, &HeldStage::isDone) - held_.begin();
    std::vector<bool> seen(held_.size());
    int64_t at = follow(first, seen, [](int64_t) {});
    if (!isStuck(at))
      at = first;
    std::string text = "deadlock:";
    std::fill(seen.begin(), seen.end(), false);
    follow(at, seen, [&](int64_t stage) { text += "\n  " + reasonOf(stage); });
    return text;
  }

private:
  bool isStuck(int64_t stage) const { return stage >= 0 && !held_[stage].isDone; }

  // Calls visit(stage) along the chain. Out: where it ends, or comes to a stage again.
  template <typename Visit> int64_t follow(int64_t at, std::vector<bool> &seen, Visit &&visit) const {
    for (; isStuck(at) && !seen[at]; at = held_[at].waitsFor) {
      seen[at] = true;
      visit(at);
    }
    return at;
  }

  std::string describe(int64_t s, int64_t item, int64_t iteration) const {
    const StagePlan &plan = plan_.stages[s];
    const ScheduleStep &step = plan.schedule[item];
    const std::string what = step.kind == Kind::run
                                 ? "run " + plan.chunks[step.chunk].name()
                                 : fmt::format("{} of '{}' {} stage {}", step.kind == Kind::send ? "send" : "recv",
                                               plan.rings[step.ring].name, step.kind == Kind::send ? "to" : "from",
                                               plan.rings[step.ring].peer);
    return fmt::format("stage {} schedule[{}], iteration {} ({})", s, item, iteration, what);
  }

  std::string reasonOf(int64_t s) const {
    const HeldStage &held = held_[s];
    const std::string here = describe(s, held.item, held.iteration);
    if (held.wait >= 0) {
      const HeldStage &other = held_[held.waitsFor];
      return fmt::format("{} waits for its {}, whose other end {}", here, describe(s, held.wait, 0),
                         other.isDone ? fmt::format("stage {} does not have", held.waitsFor)
                                      : "comes after " + describe(held.waitsFor, other.item, other.iteration));
    }
    return held.group < 0 ? here
                          : fmt::format("{} waits for stage {} to come to the same collective", here, held.waitsFor);
  }

  const Plan &plan_;
  const std::vector<HeldStage> &held_;
};

} // namespace

void proveProgress(const Plan &plan, Problems &problems) {
  const size_t known = problems.count();
  const Meetings meetings = meetingsOf(plan, problems);
  if (problems.count() > known)
    return;
  const schedule::Played played = schedule::play(listsOf(plan, meetings), kMostRounds);
  if (!played.endsInTime)
    problems.add("the steps of the stages do not repeat themselves within {} rounds; fewer microbatches would do",
                 kMostRounds);
  else if (!played.stuck.empty())
    problems.add("{}", Deadlock(plan, played.stuck).describe());
}

} // namespace mgc::plan
