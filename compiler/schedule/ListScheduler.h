// List scheduling: orders from times and a cap on live activations. A stage that is free takes, of its next forwards and inputs
// that fit, the first by a pattern; a weight task where none is ready, or to make room. A chunk's activation is live from the
// start of its forward to the end of its weight task, and counts as one chunk. Backwards are split.
#pragma once

#include "compiler/schedule/OrderTiming.h"

#include <algorithm>

namespace mgc::schedule {

// Pattern.h makes them.
struct Pattern {
  std::vector<double> forward, input; // starts of the first microbatches, by global chunk and microbatch
  double period = 1;                  // from one microbatch to the next, where they are no longer told
  int64_t told = 1;                   // microbatches whose starts are

  double start(TaskKind kind, int64_t global, int64_t microbatch) const {
    const int64_t last = std::min(microbatch, told - 1);
    return (kind == TaskKind::forward ? forward : input)[global * told + last] + double(microbatch - last) * period;
  }
};

struct ListRules {
  int64_t cap = 1;     // live activations of a stage, in chunks: at least one per chunk
  double ahead = 0;    // a task that is ready goes before others that are not, if it is so many periods later at most
  double patience = 0; // a weight waits where another task will be ready within this share of its time
};

// With ahead = INFINITY the orders end for every pattern and cap >= virtualStages: a forward leaves room for the later chunks of
// its stage, so that the oldest microbatch can always go on. With less, a stage may wait for what it holds up itself.
TimedOrders listSchedule(const Shape &shape, const TaskTimes &times, const Pattern &pattern, const ListRules &rules);

} // namespace mgc::schedule
