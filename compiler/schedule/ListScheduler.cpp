// See ListScheduler.h. Stages decide in the order of time. A consumer knows when its input arrives as soon as the
// producer starts, so a decision sees all running tasks.
#include "compiler/schedule/ListScheduler.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>

namespace mgc::schedule {
namespace {

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
  ListScheduler(const Shape &shape, const TaskTimes &times, const Pattern &pattern, const ListRules &rules)
      : shape(shape), times(times), pattern(pattern), rules(rules), arrivals(shape, times.message),
        stages(shape.stages) {
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
      if (std::ranges::count(stage.weights, shape.microbatches) != shape.virtualStages)
        result.makespan = result.span = INFINITY;
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
    double rank = INFINITY, ready = INFINITY; // start by the pattern; arrival of what it needs
  };

  bool fits(const Stage &stage, int64_t chunk) const {
    return stage.live + 1 <= rules.cap - (shape.virtualStages - 1 - chunk);
  }

  template <typename Visit> void visitCandidates(int64_t index, Visit &&visit) const {
    const Stage &stage = stages[index];
    for (int64_t chunk = 0; chunk < shape.virtualStages; ++chunk) {
      const int64_t global = shape.globalChunk(index, chunk);
      auto offer = [&](TaskKind kind, int64_t m) {
        visit({kind, chunk, pattern.start(kind, global, m), arrivals.at(global, kind, m)});
      };
      if (const int64_t m = stage.inputs[chunk]; m < stage.forwards[chunk])
        offer(TaskKind::input, m);
      if (const int64_t m = stage.forwards[chunk]; m < shape.microbatches && fits(stage, chunk))
        offer(TaskKind::forward, m);
    }
  }

  // The task to start now or, where its ready time is later, to wait for.
  Candidate next(int64_t index, double now) const {
    Candidate first, ready;
    visitCandidates(index, [&](const Candidate &found) {
      first = found.rank < first.rank ? found : first;
      ready = found.ready <= now && found.rank < ready.rank ? found : ready;
    });
    return ready.rank <= first.rank + rules.ahead * pattern.period ? ready : first;
  }

  void decide(int64_t index, double now) {
    Stage &stage = stages[index];
    const Candidate task = next(index, now);
    const int64_t pending = stage.pending.empty() ? -1 : stage.pending.front();
    const double patience =
        pending < 0 ? INFINITY : rules.patience * times.chunks[shape.globalChunk(index, pending)].weight;
    if (task.ready > now && (pending < 0 || task.ready - now < patience))
      return; // its arrival wakes the stage
    if (task.ready > now) {
      stage.pending.pop_front();
      start(index, {TaskKind::weight, pending, stage.weights[pending]++}, now);
      --stage.live;
    } else if (task.kind == TaskKind::forward) {
      ++stage.live;
      start(index, {TaskKind::forward, task.chunk, stage.forwards[task.chunk]++}, now);
    } else {
      stage.pending.push_back(task.chunk);
      start(index, {TaskKind::input, task.chunk, stage.inputs[task.chunk]++}, now);
    }
  }

  void start(int64_t index, const ScheduledTask &task, double now) {
    Stage &stage = stages[index];
    const int64_t global = shape.globalChunk(index, task.chunk);
    result.orders[index].push_back(task);
    stage.begin = stage.begin < 0 ? now : stage.begin;
    stage.busyUntil = now + times.chunks[global].*costOf(task.kind);
    wakeups.push({stage.busyUntil, index});
    const auto [to, when] = arrivals.produce(global, task.kind, task.microbatch, stage.busyUntil);
    if (to >= 0 && (stages[to].busyUntil <= now || stages[to].busyUntil < when)) // a busy stage looks when it is done
      wakeups.push({when, to});
  }

  using Wakeup = std::pair<double, int64_t>; // time, stage
  const Shape &shape;
  const TaskTimes &times;
  const Pattern &pattern;
  const ListRules &rules;
  Arrivals arrivals;
  std::vector<Stage> stages;
  std::priority_queue<Wakeup, std::vector<Wakeup>, std::greater<>> wakeups;
  TimedOrders result;
};

} // namespace

TimedOrders listSchedule(const Shape &shape, const TaskTimes &times, const Pattern &pattern, const ListRules &rules) {
  return ListScheduler(shape, times, pattern, rules).run();
}

} // namespace mgc::schedule
