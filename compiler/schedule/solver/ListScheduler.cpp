// See ListScheduler.h. Stages decide in the order of time. What a task makes is known to its consumer when the task starts, so
// a decision sees everything that is under way.
#include "compiler/schedule/solver/ListScheduler.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>

namespace mgc::schedule {
namespace {

double secondsOf(const ChunkCost &cost, TaskKind kind) {
  return kind == TaskKind::forward    ? cost.forward
         : kind == TaskKind::input    ? cost.input
         : kind == TaskKind::weight   ? cost.weight
         : kind == TaskKind::backward ? cost.backward
                                      : 0;
}

// When the inputs of forwards and of inputs (backwards) are at their stage, by global chunk and microbatch.
class Arrivals {
public:
  Arrivals(const Shape &shape, double message)
      : shape(shape), message(message), forward(shape.chunks() * shape.microbatches, INFINITY), gradient(forward) {
    std::fill_n(forward.begin(), shape.microbatches, 0);
    std::fill_n(gradient.end() - shape.microbatches, shape.microbatches, 0);
  }

  double at(int64_t global, TaskKind kind, int64_t m) const {
    if (kind == TaskKind::weight)
      return 0; // its input is a task of the same stage
    return (kind == TaskKind::forward ? forward : gradient)[global * shape.microbatches + m];
  }

  // Records what a task that ends at `end` makes; the stage that gets it, or -1, and when.
  std::pair<int64_t, double> produce(int64_t global, TaskKind kind, int64_t m, double end) {
    const int64_t to = kind == TaskKind::forward ? global + 1 : global - 1;
    if (kind == TaskKind::weight || to < 0 || to == shape.chunks())
      return {-1, 0};
    const double when = end + (shape.isLocal(std::min(to, global)) ? 0 : message);
    (kind == TaskKind::forward ? forward : gradient)[to * shape.microbatches + m] = when;
    return {shape.stageOf(to), when};
  }

private:
  const Shape &shape;
  const double message;
  std::vector<double> forward, gradient; // [global chunk][microbatch]
};

class ListScheduler {
public:
  ListScheduler(const Shape &shape, const TaskTimes &times, const ListRules &rules)
      : shape(shape), times(times), rules(rules), arrivals(shape, times.message), stages(shape.stages) {
    result.orders.resize(shape.stages);
    for (Stage &stage : stages)
      stage.forwards.assign(shape.virtualStages, 0), stage.inputs = stage.weights = stage.forwards;
  }

  TimedOrders run() {
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      wakeups.push({0, stage});
    while (!wakeups.empty()) {
      const auto [now, stage] = wakeups.top();
      wakeups.pop();
      if (stages[stage].busyUntil <= now)
        decide(stage, now);
    }
    for (const Stage &stage : stages) {
      result.makespan = std::max(result.makespan, stage.busyUntil);
      result.span = std::max(result.span, stage.busyUntil - stage.begin);
    }
    return std::move(result);
  }

private:
  struct Stage {
    std::vector<int64_t> forwards, inputs, weights; // started so far, by chunk
    std::deque<int64_t> pending;                    // chunks of the weights whose input has run
    int64_t live = 0;                               // activations
    double busyUntil = 0, begin = -1;
  };

  struct Candidate {
    TaskKind kind = TaskKind::begin;
    int64_t chunk = -1;
    double ready = INFINITY;
  };

  bool fits(const Stage &stage, int64_t chunk) const {
    return stage.live + 1 <= rules.cap - (shape.virtualStages - 1 - chunk);
  }

  // Whether `a` is to go before `b`; both are ready.
  bool goesBefore(const Candidate &a, const Candidate &b) const {
    if (a.kind != b.kind)
      return (a.kind == TaskKind::forward) == rules.forwardFirst;
    return a.kind == TaskKind::forward ? (a.chunk > b.chunk) == rules.lateFirst : a.chunk > b.chunk;
  }

  // The forward or input to start now, else the one that is ready first.
  Candidate next(int64_t index, double now) const {
    const Stage &stage = stages[index];
    Candidate best;
    auto offer = [&](TaskKind kind, int64_t chunk, int64_t m) {
      const Candidate found{kind, chunk, arrivals.at(shape.globalChunk(index, chunk), kind, m)};
      const bool isReady = found.ready <= now, bestIsReady = best.ready <= now;
      if (isReady && bestIsReady ? goesBefore(found, best) : found.ready < best.ready)
        best = found;
    };
    for (int64_t chunk = 0; chunk < shape.virtualStages; ++chunk) {
      if (stage.inputs[chunk] < stage.forwards[chunk])
        offer(TaskKind::input, chunk, stage.inputs[chunk]);
      if (stage.forwards[chunk] < shape.microbatches && fits(stage, chunk))
        offer(TaskKind::forward, chunk, stage.forwards[chunk]);
    }
    return best;
  }

  void decide(int64_t index, double now) {
    Stage &stage = stages[index];
    const Candidate best = next(index, now);
    if (!stage.pending.empty() && prefersWeight(index, best, now)) {
      const int64_t chunk = stage.pending.front();
      stage.pending.pop_front();
      start(index, {TaskKind::weight, chunk, stage.weights[chunk]++}, now);
      --stage.live;
    } else if (best.ready > now) {
      return; // its arrival wakes the stage
    } else if (best.kind == TaskKind::forward) {
      ++stage.live;
      start(index, {TaskKind::forward, best.chunk, stage.forwards[best.chunk]++}, now);
    } else {
      stage.pending.push_back(best.chunk);
      start(index, {TaskKind::input, best.chunk, stage.inputs[best.chunk]++}, now);
    }
  }

  bool prefersWeight(int64_t index, const Candidate &best, double now) const {
    const Stage &stage = stages[index];
    const int64_t global = shape.globalChunk(index, stage.pending.front());
    if (best.ready > now)
      return best.ready - now >= rules.patience * times.chunks[global].weight;
    if (best.kind != TaskKind::forward || rules.weightsAt == INT64_MAX)
      return false;
    return double(stage.pending.size()) >= double(rules.weightsAt) + rules.perStage * double(index);
  }

  void start(int64_t index, const ScheduledTask &task, double now) {
    Stage &stage = stages[index];
    const int64_t global = shape.globalChunk(index, task.chunk);
    result.orders[index].push_back(task);
    stage.begin = stage.begin < 0 ? now : stage.begin;
    stage.busyUntil = now + secondsOf(times.chunks[global], task.kind);
    wakeups.push({stage.busyUntil, index});
    if (auto [to, when] = arrivals.produce(global, task.kind, task.microbatch, stage.busyUntil); to >= 0)
      wakeups.push({when, to});
  }

  using Wakeup = std::pair<double, int64_t>; // time, stage
  const Shape &shape;
  const TaskTimes &times;
  const ListRules &rules;
  Arrivals arrivals;
  std::vector<Stage> stages;
  std::priority_queue<Wakeup, std::vector<Wakeup>, std::greater<>> wakeups;
  TimedOrders result;
};

} // namespace

TimedOrders listSchedule(const Shape &shape, const TaskTimes &times, const ListRules &rules) {
  return ListScheduler(shape, times, rules).run();
}

TimedOrders timed(const Shape &shape, const TaskTimes &times, std::vector<Order> orders) {
  Arrivals arrivals(shape, times.message);
  std::vector<size_t> next(shape.stages, 0);
  std::vector<double> clock(shape.stages, 0), begin(shape.stages, -1);
  for (bool progress = true; progress;) {
    progress = false;
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      for (size_t &i = next[stage]; i < orders[stage].size(); ++i, progress = true) {
        const ScheduledTask &task = orders[stage][i];
        const int64_t global = shape.globalChunk(stage, task.chunk);
        const double ready = arrivals.at(global, task.kind, task.microbatch);
        if (ready == INFINITY)
          break;
        const double start = std::max(ready, clock[stage]);
        begin[stage] = begin[stage] < 0 ? start : begin[stage];
        clock[stage] = start + secondsOf(times.chunks[global], task.kind);
        arrivals.produce(global, task.kind, task.microbatch, clock[stage]);
      }
  }
  TimedOrders result{std::move(orders)};
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    result.makespan = std::max(result.makespan, clock[stage]);
    result.span = std::max(result.span, clock[stage] - begin[stage]);
  }
  return result;
}

int64_t peakOf(const Shape &shape, const std::vector<Order> &orders) {
  int64_t most = 0;
  for (const Order &order : orders) {
    const bool split = std::ranges::any_of(order, [](auto &task) { return task.kind == TaskKind::weight; });
    int64_t live = 0;
    for (const ScheduledTask &task : order) {
      live += task.kind == TaskKind::forward;
      most = std::max(most, live);
      live -= task.kind == (split ? TaskKind::weight : TaskKind::backward);
    }
  }
  return std::min(most, shape.virtualStages * shape.microbatches);
}

} // namespace mgc::schedule
