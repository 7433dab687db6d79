// See CheckOrders.h.
#include "compiler/schedule/CheckOrders.h"

#include "compiler/schedule/Orders.h"
#include "runtime/base/Problems.h"

#include <algorithm>

namespace mgc::schedule {
namespace {

bool inside(int64_t value, int64_t bound) { return 0 <= value && value < bound; }

class OrderCheck {
public:
  OrderCheck(const Shape &shape, const std::vector<Order> &orders, const StepNames &names)
      : shape(shape), orders(orders), names(names), split(isSplit(orders)) {}

  Status check() {
    checkForm();
    MGC_TRY(problems.status());
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      checkStage(stage);
    MGC_TRY(problems.status()); // a task that is missing is no deadlock
    checkDeadlock();
    return problems.status();
  }

private:
  std::string name(int64_t stage, int64_t index) const {
    if (names)
      return names(stage, index);
    return fmt::format("stage {} step {} {}", stage, index, tokenOf(shape, stage, orders[stage][index]));
  }

  void checkForm() {
    if (!problems.expect(int64_t(orders.size()) == shape.stages, "{} stages have orders, expected {}", orders.size(),
                         shape.stages))
      return;
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      for (size_t i = 0; i < orders[stage].size(); ++i) {
        const ScheduledTask &task = orders[stage][i];
        if (!plan::isPerMicrobatch(task.kind) || task.part != -1 || !inside(task.chunk, shape.virtualStages) ||
            !inside(task.microbatch, shape.microbatches))
          problems.add("stage {} step {}: {} is no task of {} chunks and {} microbatches", stage, i, toString(task),
                       shape.virtualStages, shape.microbatches);
        else if (split && task.kind == TaskKind::backward)
          problems.add("{} is a whole backward, where others are split in I and W", name(stage, i));
        else if (task.paired)
          checkPair(stage, i);
      }
  }

  // Nothing flows between a forward and a backward of other microbatches, so that they may run at the same time.
  void checkPair(int64_t stage, size_t second) {
    const Order &order = orders[stage];
    const bool hasFirst = second > 0 && !order[second - 1].paired;
    const auto isForward = [&](size_t i) { return order[i].kind == TaskKind::forward; };
    if (!hasFirst || isForward(second - 1) == isForward(second) ||
        order[second - 1].microbatch == order[second].microbatch)
      problems.add("{} is paired with {}; a pair is a forward and a backward, or a half of one, of two microbatches",
                   name(stage, int64_t(second)), hasFirst ? name(stage, int64_t(second) - 1) : "no other");
  }

  // --- One stage: each task once, after what it needs here ---

  int64_t &at(TaskKind kind, int64_t chunk, int64_t m) {
    return position[(int64_t(kind) * shape.virtualStages + chunk) * shape.microbatches + m];
  }

  void checkStage(int64_t stage) {
    position.assign(kTaskKinds * shape.virtualStages * shape.microbatches, -1);
    for (size_t i = 0; i < orders[stage].size(); ++i) {
      const ScheduledTask &task = orders[stage][i];
      int64_t &first = at(task.kind, task.chunk, task.microbatch);
      if (problems.expect(first < 0, "{} is there before, as step {}", name(stage, int64_t(i)), first))
        first = int64_t(i);
    }
    for (int64_t chunk = 0; chunk < shape.virtualStages; ++chunk) {
      for (int64_t m = 0; m < shape.microbatches; ++m)
        checkChain(stage, chunk, m);
      for (int64_t kind = 0; kind < kTaskKinds; ++kind)
        checkAscending(stage, chunk, TaskKind(kind));
    }
  }

  void checkChain(int64_t stage, int64_t chunk, int64_t m) {
    static const std::vector<TaskKind> whole = {TaskKind::forward, TaskKind::backward};
    static const std::vector<TaskKind> halves = {TaskKind::forward, TaskKind::input, TaskKind::weight};
    int64_t before = -1;
    for (TaskKind kind : split ? halves : whole) {
      const int64_t step = at(kind, chunk, m);
      if (!problems.expect(step >= 0, "stage {} has no {}", stage, tokenOf(shape, stage, {kind, chunk, m})))
        continue;
      problems.expect(before < step, "{} comes before {} (step {}), which it needs", name(stage, step),
                      tokenOf(shape, stage, before < 0 ? ScheduledTask() : orders[stage][before]), before);
      before = std::max(before, step);
    }
  }

  // A chunk's microbatches come in ascending order: gradients are added up in it, so that all schedules give the same bits.
  void checkAscending(int64_t stage, int64_t chunk, TaskKind kind) {
    for (int64_t m = 1; m < shape.microbatches; ++m) {
      const int64_t before = at(kind, chunk, m - 1), step = at(kind, chunk, m);
      if (before >= 0 && step >= 0 && before > step)
        problems.add("{} comes before {} (step {}); each chunk runs its microbatches in ascending order, in which "
                     "gradients are added up",
                     name(stage, step), tokenOf(shape, stage, orders[stage][before]), before);
    }
  }

  // --- All stages ---

  struct Place {
    int64_t stage = -1, step = -1;
  };

  void checkDeadlock() {
    const OrderTimes times = timeOrders(shape, orders);
    if (times.complete)
      return;
    std::vector<int64_t> next; // by stage: the first task that it never starts
    for (const std::vector<int64_t> &start : times.start)
      next.push_back(std::ranges::find(start, -1) - start.begin());
    auto isStuck = [&](int64_t stage) { return next[stage] < int64_t(orders[stage].size()); };
    int64_t at = 0;
    while (!isStuck(at))
      ++at;
    std::vector<bool> seen(shape.stages);
    for (; !seen[at]; at = neededBy(at, next).stage) // into the circle
      seen[at] = true;
    std::string text = "the steps wait for each other:";
    std::fill(seen.begin(), seen.end(), false);
    for (; !seen[at]; at = neededBy(at, next).stage) {
      seen[at] = true;
      const Place missing = neededBy(at, next);
      text += fmt::format("\n  {} waits for {}", name(at, next[at]), name(missing.stage, missing.step));
      if (missing.step > next[missing.stage])
        text += fmt::format(", which comes after {}", name(missing.stage, next[missing.stage]));
    }
    problems.add("{}", text);
  }

  // The step of another chunk that a step needs: forwards the one before it, backwards the one behind it. Stage -1: none.
  Place needed(int64_t stage, int64_t step) const {
    const ScheduledTask &task = orders[stage][step];
    const bool isBack = makesGradient(task.kind);
    const int64_t global = shape.globalChunk(stage, task.chunk) + (isBack ? 1 : -1);
    if (global < 0 || global == shape.chunks() || task.kind == TaskKind::weight)
      return {};
    const Order &order = orders[shape.stageOf(global)];
    const auto found = std::ranges::find_if(order, [&](const ScheduledTask &other) {
      return other.kind == task.kind && other.chunk == shape.chunkOf(global) && other.microbatch == task.microbatch;
    });
    return {shape.stageOf(global), found - order.begin()};
  }
  // The step that is not there, of those that a step which never starts needs, or else of those that the other of its
  // pair needs.
  Place neededBy(int64_t stage, const std::vector<int64_t> &next) const {
    const Place first = needed(stage, next[stage]);
    return first.stage >= 0 && first.step >= next[first.stage] ? first : needed(stage, next[stage] + 1);
  }

  const Shape &shape;
  const std::vector<Order> &orders;
  const StepNames &names;
  const bool split;
  // By [kind][chunk][microbatch], for the current stage: step of each task; -1: none.
  std::vector<int64_t> position;
  Problems problems;
};

} // namespace

std::string tokenOf(const Shape &shape, int64_t stage, const ScheduledTask &task) {
  const std::string token = fmt::format("{}{}", letterOf(task.kind), task.microbatch);
  return shape.virtualStages > 1 ? fmt::format("{}{}", shape.globalChunk(stage, task.chunk), token) : token;
}

bool isSplit(const std::vector<Order> &orders) {
  return std::ranges::any_of(orders, [](const Order &order) {
    return std::ranges::any_of(
        order, [](const ScheduledTask &task) { return task.kind == TaskKind::input || task.kind == TaskKind::weight; });
  });
}

Status checkOrders(const Shape &shape, const std::vector<Order> &orders, const StepNames &names) {
  return OrderCheck(shape, orders, names).check();
}

} // namespace mgc::schedule
