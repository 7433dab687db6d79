// Patterns: when each chunk runs its forward and input tasks. Most say it of microbatch 0; those of microbatch m follow m
// periods later.
// Sorted by these times the tasks of a stage are a good order for most costs. A pattern decides the memory of a schedule: a
// chunk holds (input - forward) / period microbatches.
#pragma once

#include "compiler/schedule/ListScheduler.h"

#include <optional>

namespace mgc::schedule {

// The spacing of a V, in units of a sixth of the period: neighbouring stages start F0 `down` apart, F1 `up`, I1 `back`, I0
// `out`. V-Half is {2, 1, 2, 1}, ZB-V {1, 5, 1, 5}; a stage holds (down + up + back + out) stages / 6 chunks.
struct Spacing {
  int64_t down = 1, up = 1, back = 1, out = 1;
};

// The shortest pattern of a V with that spacing in which no two tasks of a stage start in one unit; period 6. Empty where there
// is none.
std::optional<Pattern> patternOf(int64_t stages, const Spacing &spacing);

// A pattern for any placement whose neighbouring chunks start `stretch` times as far apart as costs and messages make necessary;
// `lean` in (-1, 1) moves distance from forwards to inputs, in a V from one chunk to the other.
Pattern patternOf(const Shape &shape, const TaskTimes &times, double stretch, double lean);

// The starts of all tasks in a schedule: by it, list scheduling makes a similar one.
Pattern patternOf(const Shape &shape, const TaskTimes &times, const TimedOrders &schedule);

// The most microbatches that a stage holds, in chunks.
double inFlight(const Shape &shape, const Pattern &pattern);

} // namespace mgc::schedule
