// The ordered list of each stage: what a step runs, on which memory, and after which steps. How the lists of all stages
// run together is proved by Matching, Progress and StageFlow.
#include "plan/prove/VerifyParts.h"

#include "plan/Expand.h"
#include "plan/play/PlanLists.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc::plan {

namespace {

using Kind = ScheduleStep::Kind;

class ScheduleChecks {
public:
  ScheduleChecks(Checks &checks, int64_t stage, const Place &place)
      : checks_(checks), violations_(checks.violations), number_(stage), stage_(checks.plan.stages[stage]),
        place_(place), shape_(schedule::shapeOf(checks.plan)), ran_(stage_.chunks.size()) {}

  void verify() {
    if (!verifyRepeats(checks_, place_, stage_.repeats, stage_.schedule.size(), kMaxRuns))
      return;
    Place schedule = place_.field("schedule"), chunks = place_.field("chunks");
    int64_t before = 0; // steps that run before the first run of a step
    size_t repeat = 0;
    forEachItem(stage_.schedule.size(), stage_.repeats, [&](size_t i, int64_t iterations) {
      while (repeat < stage_.repeats.size() && stage_.repeats[repeat].end <= int64_t(i)) {
        const auto &[begin, end, count] = stage_.repeats[repeat++];
        before += (end - begin) * (count - 1);
      }
      verifyStep(stage_.schedule[i], before + int64_t(i), iterations, schedule.element(i));
      if (stage_.schedule[i].paired)
        verifyPair(i, schedule.element(i));
    });
    for (size_t i = 0; i < stage_.chunks.size(); ++i)
      violations_.expect(ran_[i], chunks.element(i), "no step runs chunk '{}'", stage_.chunks[i].name());
  }

private:
  void verifyStep(const ScheduleStep &step, int64_t before, int64_t iterations, const Place &place) {
    const Checked last = checkedAdd(step.microbatch, checkedMultiply(step.microbatchStride, iterations - 1));
    const auto isMicrobatch = [&](int64_t m) { return m >= 0 && m < checks_.plan.microbatches; };
    violations_.expect(step.microbatch == -1 ? step.microbatchStride == 0
                                             : isMicrobatch(step.microbatch) && last && isMicrobatch(*last),
                       place, "microbatch {}, {} more in each of {} iterations: expected -1, or one of {} each time",
                       step.microbatch, step.microbatchStride, iterations, checks_.plan.microbatches);
    for (int64_t wait : step.waits)
      violations_.expect(wait >= 1 && wait <= before, place,
                         "waits for the step {} before it; expected 1 to {}, the steps that run before it", wait,
                         before);
    if (step.kind == Kind::run)
      verifyRun(step, place);
    else
      verifyTransfer(step, place);
  }

  // In every iteration the step before it is the same one.
  bool isAtRepeat(size_t item) const {
    return std::ranges::any_of(stage_.repeats, [&](const Repeat &repeat) {
      return repeat.begin == int64_t(item) || repeat.end == int64_t(item);
    });
  }
  void verifyPair(size_t item, const Place &place) {
    const ScheduleStep &step = stage_.schedule[item];
    const auto isWhole = [&](const ScheduleStep &one) {
      return one.kind == Kind::run && one.microbatch >= 0 && one.callCount < 0;
    };
    violations_.expect(step.waits.empty(), place,
                       "is the second run of a pair and has waits; expected those of both at the first");
    violations_.expect(isWhole(step) && item > 0 && !isAtRepeat(item) && isWhole(stage_.schedule[item - 1]) &&
                           !stage_.schedule[item - 1].paired,
                       place,
                       "is the second run of a pair; expected a run of all calls for a microbatch, right "
                       "behind such a run that is no second one, with no end of a repeat between");
  }

  void verifyRun(const ScheduleStep &step, const Place &place) {
    if (!violations_.expect(inRange(step.chunk, stage_.chunks.size()), place, "chunk {} is not one of {}", step.chunk,
                            stage_.chunks.size()))
      return;
    ran_[step.chunk] = true;
    const Chunk &chunk = stage_.chunks[step.chunk];
    violations_.expect(isPerMicrobatch(chunk.task) == (step.microbatch >= 0), place,
                       "chunk '{}' runs for microbatch {}; forward, backward, input and weight run for one, the "
                       "others for -1",
                       chunk.name(), step.microbatch);
    violations_.expect(step.ring == -1, place, "ring = {} of a run; expected -1", step.ring);
    const int64_t calls = runCount(chunk.calls.size(), chunk.repeats);
    violations_.expect(step.firstCall >= 0 && step.firstCall <= calls && step.callCount >= -1 &&
                           step.callCount <= calls - step.firstCall && (step.callCount >= 0 || step.firstCall == 0),
                       place, "{} calls from {} on are not inside the {} of chunk '{}'", step.callCount, step.firstCall,
                       calls, chunk.name());
  }

  void verifyTransfer(const ScheduleStep &step, const Place &place) {
    violations_.expect(step.microbatch >= 0, place, "travels for microbatch {}; expected one", step.microbatch);
    if (violations_.expect(inRange(step.ring, stage_.rings.size()), place, "ring {} is not one of {}", step.ring,
                           stage_.rings.size()) &&
        violations_.expect(stage_.rings[step.ring].peer >= 0, place, "ring '{}' has no peer, so it does not travel",
                           stage_.rings[step.ring].name))
      verifyWay(step.kind, stage_.rings[step.ring], place);
  }

  // Between which stages a value travels, the placement of chunks says.
  void verifyWay(Kind kind, const Ring &ring, const Place &place) {
    if (shape_.virtualStages == 1)
      return;
    const int64_t chunk = ring.value / 2; // the gradient goes back
    if (!violations_.expect(ring.value >= 0 && chunk + 1 < shape_.chunks(), place,
                            "value {} of ring '{}' lies between no two of {} chunks", ring.value, ring.name,
                            shape_.chunks()))
      return;
    const bool isSource = (kind == Kind::send) == (ring.value % 2 == 0); // has the earlier chunk
    const int64_t own = shape_.stageOf(isSource ? chunk : chunk + 1),
                  other = shape_.stageOf(isSource ? chunk + 1 : chunk);
    violations_.expect(own == number_ && other == ring.peer, place,
                       "value {} travels between chunks {} and {}, which stages {} and {} have in placement {}; here "
                       "are stages {} and {}",
                       ring.value, chunk, chunk + 1, shape_.stageOf(chunk), shape_.stageOf(chunk + 1),
                       nameOf(shape_.placement), number_, ring.peer);
  }

  Checks &checks_;
  Violations &violations_;
  const int64_t number_;
  const StagePlan &stage_;
  const Place &place_;
  const schedule::Shape shape_;
  std::vector<bool> ran_; // by chunk
};

} // namespace

void verifySchedules(Checks &checks) {
  if (checks.violations.count() > 0) // the steps name things that are wrong
    return;
  Place root, stages = root.field("stages");
  for (size_t i = 0; i < checks.plan.stages.size(); ++i) {
    Place here = stages.element(i);
    ScheduleChecks(checks, static_cast<int64_t>(i), here).verify();
  }
}

} // namespace mgc::plan
