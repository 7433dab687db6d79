// Whether the compute orders of the stages can run together, and when each task would run.
#pragma once

#include "compiler/schedule/Schedule.h"

#include <array>

namespace mgc::schedule {

struct OrderTimes {
  bool complete = false; // false: the orders wait for each other; tasks that never run keep time -1
  std::vector<std::vector<int64_t>> start,
      end; // [stage][position]
};

// Whole numbers, at least 1 for a task.
struct TaskTicks {
  std::vector<std::array<int64_t, kTaskKinds>> chunks = {}; // by global chunk; empty: backward 2, the others 1
  int64_t message = 0;

  int64_t of(int64_t global, TaskKind kind) const {
    return chunks.empty() ? (kind == TaskKind::backward ? 2 : 1) : chunks[global][int(kind)];
  }
};
// By the costs of the problem, the largest some thousand ticks.
TaskTicks ticksOf(const Problem &problem);

// Chunks and microbatches of the tasks must be inside the shape. A pair starts when both of its tasks can, and ends as a whole.
OrderTimes timeOrders(const Shape &shape, const std::vector<Order> &orders, const TaskTicks &ticks = {});

} // namespace mgc::schedule
