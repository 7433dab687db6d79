// See VSchedules.h.
#include "compiler/schedule/VSchedules.h"

#include "compiler/schedule/Pattern.h"

#include <algorithm>
#include <array>

namespace mgc::schedule {
namespace {

// Tasks of one stage in the order in which they are added; each kind of a chunk goes through the microbatches.
class StageOrder {
public:
  void add(TaskKind kind, int64_t chunk) { order.push_back({kind, chunk, next(kind, chunk)++}); }
  // The forward of one chunk with the backward of the other, both of their next microbatches.
  void addPair(int64_t forward, int64_t backward) {
    add(TaskKind::forward, forward);
    add(TaskKind::backward, backward);
    order.back().paired = true;
  }
  void addAll(std::initializer_list<std::pair<TaskKind, int64_t>> tasks, int64_t times = 1) {
    for (int64_t i = 0; i < times; ++i)
      for (auto [kind, chunk] : tasks)
        add(kind, chunk);
  }
  int64_t &next(TaskKind kind, int64_t chunk) { return counts[chunk][int(kind)]; }

  Order order;

private:
  std::array<std::array<int64_t, kTaskKinds>, 2> counts = {};
};

// Removes the tasks of all other microbatches. A task whose pair loses the other one runs by itself.
void keepMicrobatches(Order &order, int64_t microbatches) {
  Order kept;
  const ScheduledTask *before = nullptr;
  for (const ScheduledTask &task : order) {
    if (task.microbatch < microbatches) {
      kept.push_back(task);
      kept.back().paired &= before && before->microbatch < microbatches;
    }
    before = &task;
  }
  order = std::move(kept);
}

// The tasks of microbatch 0, each in its unit, once per period for every microbatch, by unit.
Order repeat(const std::vector<std::pair<int64_t, ScheduledTask>> &tasks, int64_t period, int64_t microbatches) {
  std::vector<std::pair<int64_t, ScheduledTask>> all;
  for (int64_t m = 0; m < microbatches; ++m)
    for (const auto &[unit, task] : tasks)
      all.push_back({unit + period * m, {task.kind, task.chunk, m}});
  std::ranges::sort(all, {}, &std::pair<int64_t, ScheduledTask>::first);
  Order order;
  for (const auto &[unit, task] : all)
    order.push_back(task);
  return order;
}

} // namespace

// ZB-V (Qi et al. 2024), the order for at least 2 stages - 1 microbatches, less the tasks of those that do not exist: tasks
// depend only on tasks of their own microbatch.
std::vector<Order> zeroBubbleV(const Shape &shape) {
  using enum TaskKind;
  const int64_t stages = shape.stages, count = std::max(shape.microbatches, 2 * stages - 1);
  std::vector<Order> orders;
  for (int64_t stage = 0; stage < stages; ++stage) {
    StageOrder list;
    list.addAll({{forward, 0}}, 2 * (stages - stage) - 1);
    list.addAll({{forward, 1}, {forward, 0}}, stage);
    list.addAll({{forward, 1}, {input, 1}, {weight, 1}}, stages - stage);
    while (list.next(forward, 1) < list.next(forward, 0) || list.next(forward, 0) < count) {
      if (list.next(forward, 0) < count)
        list.add(forward, 0);
      list.addAll({{input, 0}, {weight, 0}, {forward, 1}, {input, 1}, {weight, 1}});
    }
    list.addAll({{input, 0}, {input, 1}}, stage);
    list.addAll({{input, 0}, {weight, 0}}, stages - stage);
    list.addAll({{weight, 1}}, list.next(input, 1) - list.next(weight, 1));
    list.addAll({{weight, 0}}, list.next(input, 0) - list.next(weight, 0));
    keepMicrobatches(list.order, shape.microbatches);
    orders.push_back(std::move(list.order));
  }
  return orders;
}

// V-Half (Qi et al. 2024): the pattern of that spacing, with each weight in the first unit behind its input that is free in
// every period. The order alone is kept, so that tasks start as early as they can.
std::vector<Order> halfMemoryV(const Shape &shape) {
  const Pattern pattern = *patternOf(shape.stages, {2, 1, 2, 1});
  const int64_t period = int64_t(pattern.period);
  std::vector<Order> orders;
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    std::vector<std::pair<int64_t, ScheduledTask>> tasks; // tasks of microbatch 0, by unit
    std::vector<bool> taken(period);
    auto add = [&](int64_t unit, TaskKind kind, int64_t chunk) {
      tasks.push_back({unit, {kind, chunk, 0}});
      taken[unit % period] = true;
    };
    for (int64_t chunk : {0, 1}) {
      add(int64_t(pattern.forward[shape.globalChunk(stage, chunk)]), TaskKind::forward, chunk);
      add(int64_t(pattern.input[shape.globalChunk(stage, chunk)]), TaskKind::input, chunk);
    }
    for (int64_t chunk : {1, 0}) {
      int64_t unit = int64_t(pattern.input[shape.globalChunk(stage, chunk)]) + 1;
      while (taken[unit % period])
        ++unit;
      add(unit, TaskKind::weight, chunk);
    }
    orders.push_back(repeat(tasks, period, shape.microbatches));
  }
  return orders;
}

// DualPipeV (DeepSeek 2025), the order for at least 2 stages microbatches, less the tasks of those that do not exist. Backwards are
// whole, so nothing of it fills the bubble.
std::vector<Order> dualPipeV(const Shape &shape) {
  using enum TaskKind;
  const int64_t stages = shape.stages, count = std::max(shape.microbatches, 2 * stages);
  std::vector<Order> orders;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const int64_t behind = stages - 1 - stage;
    StageOrder list;
    list.addAll({{forward, 0}}, 2 * behind);
    list.addAll({{forward, 0}, {forward, 1}}, stage + 1);
    list.addAll({{backward, 1}, {forward, 1}}, behind);
    for (int64_t i = 0; i < count - 2 * stages + stage + 1; ++i) {
      if (i == 0 && behind == 0) // its gradient is there first: whoever waits for it gains
        list.addAll({{forward, 0}, {backward, 1}});
      else
        list.addPair(0, 1);
      list.addPair(1, 0);
    }
    for (int64_t i = 0; i < behind; ++i) {
      list.add(backward, 1);
      list.addPair(1, 0);
    }
    list.addAll({{backward, 1}, {backward, 0}}, stage + 1);
    list.addAll({{backward, 0}}, behind);
    keepMicrobatches(list.order, shape.microbatches);
    orders.push_back(std::move(list.order));
  }
  return orders;
}

} // namespace mgc::schedule
