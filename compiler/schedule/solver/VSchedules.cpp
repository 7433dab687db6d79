// See VSchedules.h.
#include "compiler/schedule/solver/VSchedules.h"

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

namespace {

// A pattern that repeats every 6 units, of one microbatch on one stage: when each task starts. A task takes a unit.
constexpr int64_t kPeriod = 6;
struct Pattern {
  int64_t down = 0, up = 0, back = 0, end = 0; // F0 of stage 0, F1 of the last, I1 of stage 0, I0 of the last
  std::array<int64_t, 4> starts(int64_t stages, int64_t stage) const { // F0, F1, I1, I0
    const int64_t rest = stages - 1 - stage;
    return {down + 2 * stage, up + rest, back + 2 * stage, end + rest};
  }
  bool fits(int64_t stages) const { // no two tasks of a stage in one unit
    for (int64_t stage = 0; stage < stages; ++stage) {
      int64_t taken = 0;
      for (int64_t start : starts(stages, stage))
        taken |= int64_t(1) << start % kPeriod;
      if (__builtin_popcountll(taken) != 4)
        return false;
    }
    return true;
  }
};

// The earliest pattern whose tasks follow those they need.
Pattern halfPattern(int64_t stages) {
  for (Pattern p{0, 2 * stages - 1, 0, 0};; ++p.up)
    for (p.back = p.up + stages; p.back < p.up + stages + kPeriod; ++p.back)
      for (p.end = p.back + 2 * stages - 1; p.end < p.back + 2 * stages - 1 + kPeriod; ++p.end)
        if (p.fits(stages))
          return p;
}

} // namespace

std::vector<Order> halfMemoryV(const Shape &shape) {
  using enum TaskKind;
  const Pattern pattern = halfPattern(shape.stages);
  std::vector<Order> orders;
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    const std::array<int64_t, 4> starts = pattern.starts(shape.stages, stage);
    std::array<bool, kPeriod> taken = {};
    for (int64_t start : starts)
      taken[start % kPeriod] = true;
    auto firstFree = [&](int64_t from) {
      while (taken[from % kPeriod])
        ++from;
      taken[from % kPeriod] = true;
      return from;
    };
    const int64_t weight1 = firstFree(starts[2] + 1), weight0 = firstFree(starts[3] + 1);
    std::vector<std::pair<int64_t, ScheduledTask>> list;
    for (int64_t m = 0; m < shape.microbatches; ++m)
      for (auto [start, kind, chunk] :
           {std::tuple(starts[0], forward, 0), {starts[1], forward, 1}, {starts[2], input, 1},
            {starts[3], input, 0}, {weight1, weight, 1}, {weight0, weight, 0}})
        list.push_back({start + kPeriod * m, {kind, chunk, m}});
    std::ranges::sort(list, {}, &std::pair<int64_t, ScheduledTask>::first);
    for (auto &[start, task] : list)
      orders.resize(stage + 1), orders.back().push_back(task);
  }
  return orders;
}

} // namespace mgc::schedule
