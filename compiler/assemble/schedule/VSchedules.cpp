// See VSchedules.h.
#include "compiler/assemble/schedule/VSchedules.h"

#include "compiler/assemble/schedule/Pattern.h"

#include <algorithm>
#include <array>

namespace mgc::schedule {
namespace {

// Tasks of one stage in the order in which they are added; each kind of a chunk goes through the microbatches.
class StageOrder {
public:
  void add(TaskKind kind, int64_t chunk) { order.push_back({kind, chunk, next(kind, chunk)++}); }
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

void keepMicrobatches(Order &order, int64_t microbatches) {
  std::erase_if(order, [&](const ScheduledTask &task) { return task.microbatch >= microbatches; });
}

// The tasks of microbatch 0, each in its unit, once per period for every microbatch, by unit.
Order repeat(const std::vector<std::pair<int64_t, ScheduledTask>> &tasks, int64_t period,
             int64_t microbatches) {
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
    std::vector<std::pair<int64_t, ScheduledTask>> tasks; // of microbatch 0, by unit
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

} // namespace mgc::schedule
