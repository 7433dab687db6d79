// The table of schedules: a row gives, per stage, the order of its compute tasks. Sends, receives, waits, buffers and
// proofs follow from the orders (Generate.cpp, plan/prove). A new schedule touches this file only.
#include "compiler/schedule/AutoSchedule.h"
#include "compiler/schedule/VSchedules.h"

#include <algorithm>

namespace mgc::schedule {
namespace {

constexpr int64_t kAnyNumber = INT64_MAX;

// All forwards, then all backwards; chunk after chunk when a stage has several (breadth first).
//   stage 0 |F0 F1 F2 F3          B0 .  B1 .  B2 .  B3 .
//   stage 1 |   F0 F1 F2 F3 B0 .  B1 .  B2 .  B3 .
std::vector<Order> gpipe(const Shape &shape) {
  Order order;
  for (int64_t chunk = 0; chunk < shape.virtualStages; ++chunk)
    for (int64_t m = 0; m < shape.microbatches; ++m)
      order.push_back({TaskKind::forward, chunk, m});
  for (int64_t chunk = shape.virtualStages; chunk-- > 0;)
    for (int64_t m = 0; m < shape.microbatches; ++m)
      order.push_back({TaskKind::backward, chunk, m});
  return std::vector<Order>(shape.stages, order);
}

// Alternates one forward and one backward, after as many forwards as it takes to reach the last stage and return.
//   stage 0 |F0 F1       B0 .  F2 B1 .  F3 B2 .     B3 .
//   stage 1 |   F0 B0 .  F1 B1 .  F2 B2 .  F3 B3 .
std::vector<Order> oneForwardOneBackward(const Shape &shape) {
  std::vector<Order> orders(shape.stages);
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    int64_t warmup = std::min(shape.stages - 1 - stage, shape.microbatches);
    for (int64_t i = 0; i < shape.microbatches + warmup; ++i) {
      if (i < shape.microbatches)
        orders[stage].push_back({TaskKind::forward, 0, i});
      if (i >= warmup)
        orders[stage].push_back({TaskKind::backward, 0, i - warmup});
    }
  }
  return orders;
}

// Groups of `stages` microbatches pass all chunks of a stage before the next group does. The last group may
// be padded with microbatches that do not exist.
Order interleavedSequence(const Shape &shape, TaskKind kind) {
  Order order;
  for (int64_t group = 0; group < shape.microbatches; group += shape.stages)
    for (int64_t i = 0; i < shape.virtualStages; ++i)
      for (int64_t m = group; m < group + shape.stages; ++m)
        order.push_back({kind, kind == TaskKind::forward ? i : shape.virtualStages - 1 - i, m});
  return order;
}

// Megatron's interleaved 1F1B (Narayanan et al. 2021). Where the microbatches do not divide over the stages it is the
// order for the next number that does, less the tasks of the microbatches that do not exist: tasks depend only on tasks
// of their own microbatch, so what is left runs whenever the whole does, and holds no more in memory.
//   stage 0 |F0a F1a F0b F1b         B0b .       B1b .   B0a .   B1a .
//   stage 1 |    F0a F1a F0b B0b .   F1b B1b .   B0a .   B1a .
std::vector<Order> interleaved(const Shape &shape) {
  Order forward = interleavedSequence(shape, TaskKind::forward);
  Order backward = interleavedSequence(shape, TaskKind::backward);
  int64_t total = int64_t(forward.size());
  std::vector<Order> orders(shape.stages);
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    int64_t warmup = 2 * (shape.stages - stage - 1) + (shape.virtualStages - 1) * shape.stages;
    warmup = std::min(warmup, total);
    for (int64_t i = 0; i < total + warmup; ++i) {
      if (i < total)
        orders[stage].push_back(forward[i]);
      if (i >= warmup)
        orders[stage].push_back(backward[i - warmup]);
    }
    std::erase_if(orders[stage], [&](const ScheduledTask &task) { return task.microbatch >= shape.microbatches; });
  }
  return orders;
}

// Zero bubble, handcrafted schedule H1 (Qi et al. 2023): 1F1B in which the weight gradient of stage s follows
// s microbatches behind its input gradient. It fills the drain, and no stage holds more than min(stages, M)
// activations, the peak of 1F1B's first stage.
//   stage 0 |F0 F1    I0 W0 F2 I1 W1 F3 I2 W2 I3 W3
//   stage 1 |   F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3
std::vector<Order> zeroBubbleH1(const Shape &shape) {
  std::vector<Order> orders(shape.stages);
  int64_t count = shape.microbatches;
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    int64_t warmup = std::min(shape.stages - 1 - stage, count);
    int64_t delay = warmup + stage;
    for (int64_t i = 0; i < count + delay; ++i) {
      if (i < count)
        orders[stage].push_back({TaskKind::forward, 0, i});
      if (i >= warmup && i < warmup + count)
        orders[stage].push_back({TaskKind::input, 0, i - warmup});
      if (i >= delay)
        orders[stage].push_back({TaskKind::weight, 0, i - delay});
    }
  }
  return orders;
}

// The orders of rows whose orders depend on the shape alone.
template <std::vector<Order> (*orders)(const Shape &)> std::vector<Order> of(const Problem &problem) {
  return orders(problem.shape);
}

} // namespace

const std::vector<ScheduleRow> &schedules() {
  static const std::vector<ScheduleRow> rows = {
      // name, description, splitBackward, byDefault, min and max virtual stages, orders, placement, byTime, pairs
      {"gpipe", "all forwards, then all backwards; keeps all microbatches in memory", false, false, 1, kAnyNumber,
       of<gpipe>},
      {"1f1b", "one forward, one backward; keeps at most pp microbatches", false, true, 1, 1,
       of<oneForwardOneBackward>},
      {"interleaved", "1F1B over several chunks per stage; the bubble shrinks by their number", false, true, 2,
       kAnyNumber, of<interleaved>},
      {"zb-h1", "1F1B with split backward; the memory of 1F1B and a third of its bubble", true, false, 1, 1,
       of<zeroBubbleH1>},
      {"zb-v", "two chunks per stage in a V, split backward; the memory of 1F1B and next to no bubble", true, false, 2,
       2, of<zeroBubbleV>, ChunkPlacement::v},
      {"v-half", "two chunks per stage in a V, split backward; half the memory of 1F1B and half its bubble", true,
       false, 2, 2, of<halfMemoryV>, ChunkPlacement::v},
      {"dualpipev",
       "two chunks per stage in a V; the forward of one beside the backward of the other, as a pair of runs, "
       "which hides exchanges of experts' rows",
       false, false, 2, 2, of<dualPipeV>, ChunkPlacement::v, /*byTime=*/false, /*pairs=*/true},
      {"auto", "planned by the times of tasks under a cap on memory; split backward; two chunks are a V", true, false,
       1, 2, automatic, ChunkPlacement::v, true},
  };
  return rows;
}

} // namespace mgc::schedule
