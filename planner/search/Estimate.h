// A step of a layout, estimated from its blocks: stages are cut, scheduled, placed in memory and played as when the layout is compiled,
// by the same functions; only the functions of a step's end are priced by their buckets (StepEnd.h).
#pragma once

#include "compiler/assemble/budget/Budget.h"
#include "compiler/schedule/Periodic.h"
#include "planner/search/ShapeBlocks.h"

namespace mgc::planner {

struct StageEstimate {
  int64_t bytes = 0, hostBytes = 0; // memory of a rank
  double seconds = 0;               // all tasks of a microbatch
};

// The policy that each layer has where the layout has a budget of memory: what budget/Budget.h chooses, or that of which a microbatch
// takes least time, whatever it keeps.
enum class Policies { fitting, fastest };

struct Estimate {
  double seconds = 0; // one step
  double least = 0;   // with other policies it takes no less; 0 where these fit, are given, or run in pairs
  // By stage: with policies that fit a microbatch takes so many seconds more, at the least; empty where these fit.
  std::vector<double> slowdown = {};
  std::vector<StageEstimate> stages;
  int64_t bytes() const;     // memory of the rank that takes most
  int64_t hostBytes() const; // likewise
};

// Answers to questions that estimates have in common.
struct EstimateCache {
  schedule::SolutionCache schedules;
  budget::KnownChoices choices;
};

// `layout` must have the axes of the shape's. Error: that of schedules and memory.
Result<Estimate> estimate(const ShapeBlocks &shape, const frontend::Layout &layout, const PricedMachine &machine,
                          EstimateCache &cache, Policies policies = Policies::fitting);

// The seconds that it takes at the least with any policies: a bound by the times of its chunks, which needs neither schedule nor memory.
// No bound where runs may be pairs.
Result<double> leastSecondsOf(const ShapeBlocks &shape, const frontend::Layout &layout, const PricedMachine &machine);

} // namespace mgc::planner
