// Runs the orders against their data dependencies: forward needs the forward before it in the chain, backward
// and input need their own forward and the gradient behind them, weight needs its input.
#include "compiler/schedule/Orders.h"

#include <algorithm>
#include <cmath>

namespace mgc::schedule {
namespace {

class Clock {
public:
  Clock(const Shape &shape, int64_t message)
      : shape(shape), message(message), forward(shape.chunks() * shape.microbatches, -1), gradient(forward) {}

  // When the inputs of the task are there, or -1 when not all have been computed.
  int64_t ready(int64_t global, const ScheduledTask &task) const {
    if (task.kind == TaskKind::forward)
      return global == 0 ? 0 : sent(at(forward, global - 1, task.microbatch), global - 1);
    if (task.kind == TaskKind::weight)
      return at(gradient, global, task.microbatch);
    int64_t own = at(forward, global, task.microbatch);
    int64_t next = global + 1 == shape.chunks() ? 0 : sent(at(gradient, global + 1, task.microbatch), global);
    return own < 0 || next < 0 ? -1 : std::max(own, next);
  }

  void finish(int64_t global, const ScheduledTask &task, int64_t time) {
    if (task.kind != TaskKind::weight)
      (task.kind == TaskKind::forward ? forward : gradient)[global * shape.microbatches + task.microbatch] = time;
  }

private:
  // When a value that is made at `end` has crossed the boundary behind a global chunk.
  int64_t sent(int64_t end, int64_t boundary) const { return end < 0 || shape.isLocal(boundary) ? end : end + message; }
  int64_t at(const std::vector<int64_t> &times, int64_t global, int64_t microbatch) const {
    return times[global * shape.microbatches + microbatch];
  }
  Shape shape;
  int64_t message;
  std::vector<int64_t> forward, gradient; // end times, [global chunk][microbatch]
};

} // namespace

TaskTicks ticksOf(const Problem &problem) {
  constexpr double kLargest = 4096;
  double largest = 0;
  for (const ChunkCost &cost : problem.costs)
    largest = std::max({largest, cost.forward, cost.backward, cost.input, cost.weight});
  if (!(largest > 0) || !(largest < INFINITY))
    return {};
  auto ticks = [&](double cost) {
    return int64_t(std::clamp(cost / largest, 0.0, 1e6) * kLargest); // messages may take longer than tasks
  };
  TaskTicks result;
  for (const ChunkCost &cost : problem.costs) {
    std::array<int64_t, kTaskKinds> &chunk = result.chunks.emplace_back();
    chunk.fill(1);
    chunk[int(TaskKind::forward)] += ticks(cost.forward);
    chunk[int(TaskKind::backward)] += ticks(cost.backward);
    chunk[int(TaskKind::input)] += ticks(cost.input);
    chunk[int(TaskKind::weight)] += ticks(cost.weight);
  }
  result.message = ticks(problem.messageSeconds);
  return result;
}

OrderTimes timeOrders(const Shape &shape, const std::vector<Order> &orders, const TaskTicks &ticks) {
  OrderTimes times;
  Clock clock(shape, ticks.message);
  size_t stages = orders.size(), remaining = 0;
  for (const Order &order : orders) {
    times.start.emplace_back(order.size(), -1);
    times.end.emplace_back(order.size(), -1);
    remaining += order.size();
  }
  std::vector<size_t> next(stages, 0);
  for (bool progress = true, back = false; progress; back = !back) { // forwards go up the stages, gradients down
    progress = false;
    for (size_t turn = 0; turn < stages; ++turn) {
      const size_t stage = back ? stages - 1 - turn : turn;
      const Order &order = orders[stage];
      const auto globalOf = [&](size_t i) { return shape.globalChunk(int64_t(stage), order[i].chunk); };
      for (size_t &i = next[stage]; i < order.size(); progress = true) {
        const size_t end = i + 1 + (i + 1 < order.size() && order[i + 1].paired); // a pair counts as one
        int64_t start = i ? times.end[stage][i - 1] : 0, length = 0;
        bool isReady = true;
        for (size_t one = i; one < end; ++one) {
          const int64_t ready = clock.ready(globalOf(one), order[one]);
          isReady &= ready >= 0;
          start = std::max(start, ready);
          length += ticks.of(globalOf(one), order[one].kind);
        }
        if (!isReady)
          break;
        for (; i < end; ++i, --remaining) {
          times.start[stage][i] = start;
          times.end[stage][i] = start + length;
          clock.finish(globalOf(i), order[i], times.end[stage][i]);
        }
      }
    }
  }
  times.complete = remaining == 0;
  return times;
}

} // namespace mgc::schedule
