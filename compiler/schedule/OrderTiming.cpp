// See OrderTiming.h.
#include "compiler/schedule/OrderTiming.h"

#include "compiler/schedule/CheckOrders.h"

#include <algorithm>
#include <cmath>

namespace mgc::schedule {
namespace {

bool isForward(TaskKind kind) { return kind == TaskKind::forward; }

class OrderClock {
public:
  OrderClock(const Shape &shape, const TaskTimes &times, const std::vector<Order> &orders)
      : shape(shape), times(times), orders(orders), values(2 * shape.chunks() * shape.microbatches),
        ends(shape.stages) {
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      for (size_t i = 0; i < orders[stage].size(); ++i)
        if (Value *value = consumed(stage, orders[stage][i]))
          value->post = int64_t(i);
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      postInOrder(stage);
  }

  void run(TimedOrders &result) {
    for (bool progress = true; progress;) {
      progress = false;
      for (int64_t stage = 0; stage < shape.stages; ++stage)
        while (ends[stage].size() < orders[stage].size() && advance(stage))
          progress = true;
    }
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      const double end = ends[stage].empty() ? 0 : ends[stage].back();
      result.makespan = std::max(result.makespan, end);
      result.span = std::max(result.span, end - begin[stage]);
    }
    result.ends = std::move(ends);
  }

private:
  // An activation or gradient between two chunks, of one microbatch.
  struct Value {
    double made = INFINITY; // when its producer ends
    int64_t post = 0;       // position in the order of its consumer's stage: the receive is posted one run ahead
  };

  Value &at(bool forward, int64_t consumer, int64_t m) {
    return values[(int64_t(forward) * shape.chunks() + consumer) * shape.microbatches + m];
  }

  Value *consumed(int64_t stage, const ScheduledTask &task) {
    const int64_t global = shape.globalChunk(stage, task.chunk);
    const bool isEnd = isForward(task.kind) ? global == 0 : global + 1 == shape.chunks();
    return isEnd || task.kind == TaskKind::weight ? nullptr : &at(isForward(task.kind), global, task.microbatch);
  }

  // The global chunk that gets what the task makes, or -1.
  int64_t consumerOf(int64_t stage, const ScheduledTask &task) const {
    const int64_t to = shape.globalChunk(stage, task.chunk) + (isForward(task.kind) ? 1 : -1);
    return task.kind == TaskKind::weight || to == shape.chunks() ? -1 : to;
  }

  // A pair of stages receives in the order in which it sends: posted no later than what is sent later.
  void postInOrder(int64_t source) {
    std::vector<int64_t> last(shape.stages, INT64_MAX); // by target
    for (size_t i = orders[source].size(); i-- > 0;) {
      const ScheduledTask &task = orders[source][i];
      const int64_t to = consumerOf(source, task);
      if (to < 0 || shape.stageOf(to) == source)
        continue;
      int64_t &post = at(isForward(task.kind), to, task.microbatch).post, &later = last[shape.stageOf(to)];
      post = later = std::min(post, later);
    }
  }

  bool advance(int64_t stage) {
    const ScheduledTask &task = orders[stage][ends[stage].size()];
    const int64_t global = shape.globalChunk(stage, task.chunk);
    double start = ends[stage].empty() ? 0 : ends[stage].back();
    if (const Value *value = consumed(stage, task)) {
      if (value->made == INFINITY)
        return false;
      const bool isLocal = shape.isLocal(isForward(task.kind) ? global - 1 : global);
      const double posted = isLocal || value->post < 2 ? 0 : ends[stage][value->post - 2];
      start = std::max(start, isLocal ? value->made : std::max(value->made, posted) + times.message);
    }
    if (ends[stage].empty())
      begin[stage] = start;
    ends[stage].push_back(start + times.chunks[global].*costOf(task.kind));
    if (const int64_t to = consumerOf(stage, task); to >= 0)
      at(isForward(task.kind), to, task.microbatch).made = ends[stage].back();
    return true;
  }

  const Shape &shape;
  const TaskTimes &times;
  const std::vector<Order> &orders;
  std::vector<Value> values;             // [forward?][consumer][microbatch]
  std::vector<std::vector<double>> ends; // ends of the tasks so far, by stage
  std::vector<double> begin = std::vector<double>(ends.size(), 0);
};

} // namespace

TimedOrders timed(const Shape &shape, const TaskTimes &times, std::vector<Order> orders) {
  TimedOrders result{std::move(orders)};
  OrderClock(shape, times, result.orders).run(result);
  return result;
}

int64_t peakOf(const std::vector<Order> &orders) {
  const bool split = isSplit(orders);
  int64_t most = 0;
  for (const Order &order : orders) {
    int64_t live = 0;
    for (const ScheduledTask &task : order) {
      live += isForward(task.kind);
      most = std::max(most, live);
      live -= task.kind == (split ? TaskKind::weight : TaskKind::backward);
    }
  }
  return most;
}

} // namespace mgc::schedule
