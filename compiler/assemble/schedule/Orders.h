// Whether the compute orders of the stages can run together, and when each task would run if messages took no
// time.
#pragma once

#include "compiler/assemble/schedule/Schedule.h"

namespace mgc::schedule {

struct OrderTimes {
  bool complete = false; // false: the orders wait for each other; tasks that never run keep time -1
  std::vector<std::vector<int64_t>> start,
      end; // [stage][position]; a forward, input or weight takes 1, a backward 2
};

// Chunks and microbatches of the tasks must be inside the shape.
OrderTimes timeOrders(const Shape &shape, const std::vector<Order> &orders);

} // namespace mgc::schedule
