// List scheduling: orders from times and a cap on live activations. A stage that is free takes, of its tasks that are ready and
// fit, the one that its rules prefer. A chunk's activation is live from the start of its forward to the end of its weight task,
// and counts as one chunk. Backwards are split.
#pragma once

#include "compiler/schedule/solver/Schedule.h"

namespace mgc::schedule {

struct TaskTimes {
  std::vector<ChunkCost> chunks; // by global chunk
  double message = 0;            // from one stage to another
};

struct ListRules {
  int64_t cap = 1;          // live activations of a stage, in chunks: at least one per chunk
  bool forwardFirst = false; // of a forward and an input that are both ready
  bool lateFirst = true;     // of two forwards, that of the later chunk
  double patience = 0;       // a weight waits where another task is ready within this share of its time
  int64_t weightsAt = INT64_MAX; // so many inputs without their weight go before a forward
  double perStage = 0;           // more of these for each stage before this one
};

struct TimedOrders {
  std::vector<Order> orders;
  double makespan = 0; // from the first start to the last end of all stages
  double span = 0;     // the largest such of one stage
};

// Ends for every shape with cap >= virtualStages: a forward leaves room for the later chunks of its stage, so that the oldest
// microbatch can always go on.
TimedOrders listSchedule(const Shape &shape, const TaskTimes &times, const ListRules &rules);

// When the orders end. They must be complete: timeOrders(shape, orders).complete.
TimedOrders timed(const Shape &shape, const TaskTimes &times, std::vector<Order> orders);

// The most live activations of a stage, in chunks.
int64_t peakOf(const Shape &shape, const std::vector<Order> &orders);

} // namespace mgc::schedule
