// How long orders take, and how much they hold, without a solution. In: orders per stage, times of tasks and messages.
#pragma once

#include "compiler/schedule/Schedule.h"

namespace mgc::schedule {

struct TaskTimes {
  std::vector<ChunkCost> chunks; // by global chunk
  double message = 0;            // from one stage to another
};

struct TimedOrders {
  std::vector<Order> orders;
  double makespan = 0; // from the first start to the last end of all stages; INFINITY: they do not end
  double span = 0;     // the largest such of one stage
  std::vector<std::vector<double>> ends = {}; // by stage, then by task; empty where not requested
};

// As play() times the solution of these orders, but for waits on memory: a message starts when it is made and its receive
// is posted, one run ahead of its consumer and not after those sent later. The orders must be complete:
// timeOrders(shape, orders).complete.
TimedOrders timed(const Shape &shape, const TaskTimes &times, std::vector<Order> orders);

// The most live activations of a stage, in chunks.
int64_t peakOf(const std::vector<Order> &orders);

} // namespace mgc::schedule
