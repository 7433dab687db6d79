// Problems for the tests: every row of the table over all shapes it takes.
#pragma once

#include "compiler/schedule/Schedule.h"
#include "test/compiler/schedule/ProvablePlan.h"

namespace mgc::schedule {

// input, activation, output, gradientIn, gradientOut, split: different sizes, so that mixed-up kinds show.
inline constexpr Sizes kSizes = {256, 1000, 256, 320, 320, 192};

// A problem with the same sizes everywhere, its chunks placed as the row asks.
inline Problem uniformProblem(std::string schedule, Shape shape, Sizes bytes) {
  Problem problem;
  problem.schedule = std::move(schedule);
  problem.shape = shape;
  for (const ScheduleRow &row : schedules())
    if (problem.schedule == row.name)
      problem.shape.placement = row.placement;
  problem.bytes.assign(shape.stages, std::vector<Sizes>(shape.virtualStages, bytes));
  return problem;
}

inline bool takes(const ScheduleRow &row, int64_t virtualStages) {
  return row.minVirtualStages <= virtualStages && virtualStages <= row.maxVirtualStages;
}

// Calls visit(row, problem) for pp 1..mostStages, v 1..mostVirtual, M 1..mostMicrobatches.
template <typename Visit> void sweep(int64_t mostStages, int64_t mostVirtual, int64_t mostMicrobatches, Visit &&visit) {
  for (const ScheduleRow &row : schedules())
    for (int64_t pp = 1; pp <= mostStages; ++pp)
      for (int64_t v = 1; v <= mostVirtual; ++v)
        for (int64_t m = 1; m <= mostMicrobatches; ++m)
          if (takes(row, v))
            visit(row, uniformProblem(row.name, {pp, v, m}, kSizes));
}

// The same problems with their last backwards in parts, another number for each chunk.
inline Problem inParts(Problem problem) {
  for (int64_t stage = 0; stage < problem.shape.stages; ++stage) {
    std::vector<int64_t> &parts = problem.parts.emplace_back();
    for (int64_t chunk = 0; chunk < problem.shape.virtualStages; ++chunk)
      parts.push_back((stage + 2 * chunk + 1) % 4);
  }
  return problem;
}

inline std::string nameOf(const Problem &problem) {
  return fmt::format("{} pp {} v {} M {}", problem.schedule, problem.shape.stages, problem.shape.virtualStages,
                     problem.shape.microbatches);
}

} // namespace mgc::schedule
