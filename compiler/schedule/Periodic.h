// The solution of a scheduling problem with its repeats: what plan::StagePlan has. In: a problem with any number of
// microbatches. Out: per stage a list of steps, the parts of it that are repeated, and the rings of its buffers; size and time
// do not depend on the number of microbatches where the row's orders repeat.
#pragma once

#include "compiler/schedule/Schedule.h"

#include <map>
#include <memory>

namespace mgc::schedule {

// A step of the list as in plan::ScheduleStep: waits are distances back, reads and writes name rings instead of buffers.
struct PeriodicStep {
  Step step;
  int64_t microbatchStride = 0;
  bool operator==(const PeriodicStep &) const = default;
};

struct PeriodicStage {
  std::vector<PeriodicStep> steps;
  std::vector<plan::Repeat> repeats;
  std::vector<plan::Ring> rings;    // StageSchedule::rings
  int64_t bytes = 0, hostBytes = 0; // sizes of the areas
  int64_t leastBytes = 0;           // size of the device's buffers that live together: no area is smaller
  std::vector<BufferArea> areas;    // StageSchedule::areas, of fewer microbatches where lists repeat
  std::vector<KindSlots> slots;     // StageSchedule::slots, likewise
  bool operator==(const PeriodicStage &) const = default;
};

struct PeriodicSolution {
  Shape shape;
  std::vector<PeriodicStage> stages;
};

// The list of a stage with the repeats that it has, found by comparison alone.
PeriodicStage findRepeats(const StageSchedule &stage);

// For many microbatches three smaller problems are solved, one group of microbatches apart; where they differ in numbers only,
// and each by as much as the ones before, each number goes on linearly. It is no proof: plan/prove proves the plan. Else, and
// for few, or for orders that are given or made by time, the problem itself is solved. Errors are those of generate().
Result<PeriodicSolution> generatePeriodic(const Problem &problem);

// Solutions of problems that differ in sizes and in the number of their microbatches, for who asks for many: where sizes are equal or 0
// is all that lists depend on, but for waits of buffers that use one place after another. Steps and repeats are those of
// generatePeriodic, with the problem's bytes in messages; rings and leastBytes are of other sizes.
class SolutionCache {
public:
  Result<PeriodicSolution> solve(const Problem &problem);

private:
  struct Known; // solutions of one problem, but for its sizes and microbatches
  std::map<std::string, std::shared_ptr<Known>> known_;
};

} // namespace mgc::schedule
