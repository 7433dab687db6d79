// See Pattern.h.
#include "compiler/schedule/Pattern.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mgc::schedule {
namespace {

constexpr int64_t kPeriod = 6; // units: two chunks of three tasks

// A V in units: where F0 of stage 0, F1 of the last stage, I1 of stage 0 and I0 of the last start.
struct UnitPattern {
  Spacing spacing;
  int64_t forward0 = 0, forward1 = 0, input1 = 0, input0 = 0;

  std::array<int64_t, 4> starts(int64_t stages, int64_t stage) const { // F0, F1, I1, I0
    const int64_t rest = stages - 1 - stage;
    return {forward0 + spacing.down * stage, forward1 + spacing.up * rest, input1 + spacing.back * stage,
            input0 + spacing.out * rest};
  }

  // No two tasks of a stage start in one unit of the period. Stages repeat after a period.
  bool fits(int64_t stages) const {
    for (int64_t stage = 0; stage < std::min(stages, kPeriod); ++stage) {
      std::array<bool, kPeriod> taken = {};
      for (int64_t start : starts(stages, stage))
        if (std::exchange(taken[start % kPeriod], true))
          return false;
    }
    return true;
  }
};

} // namespace

std::optional<Pattern> patternOf(int64_t stages, const Spacing &spacing) {
  const int64_t hops = stages - 1;
  std::optional<UnitPattern> best;
  for (int64_t a = 1; a <= kPeriod; ++a)
    for (int64_t b = 1; b <= kPeriod; ++b)
      for (int64_t c = 1; c <= kPeriod; ++c) {
        UnitPattern found{spacing};
        found.forward1 = spacing.down * hops + a;
        found.input1 = found.forward1 + spacing.up * hops + b;
        found.input0 = found.input1 + spacing.back * hops + c;
        if ((!best || found.input0 < best->input0) && found.fits(stages))
          best = found;
      }
  if (!best)
    return std::nullopt;
  Pattern pattern{std::vector<double>(2 * stages), std::vector<double>(2 * stages), double(kPeriod)};
  for (int64_t stage = 0; stage < stages; ++stage) {
    const std::array<int64_t, 4> starts = best->starts(stages, stage);
    const int64_t other = 2 * stages - 1 - stage; // the global chunk of chunk 1
    pattern.forward[stage] = double(starts[0]), pattern.forward[other] = double(starts[1]);
    pattern.input[other] = double(starts[2]), pattern.input[stage] = double(starts[3]);
  }
  return pattern;
}

Pattern patternOf(const Shape &shape, const TaskTimes &times, double stretch, double lean) {
  constexpr double kShortest = 1e-12; // where all tasks take no time
  Pattern pattern{std::vector<double>(shape.chunks()), std::vector<double>(shape.chunks()), kShortest};
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    double load = 0;
    for (int64_t chunk = 0; chunk < shape.virtualStages; ++chunk) {
      const ChunkCost &cost = times.chunks[shape.globalChunk(stage, chunk)];
      load += cost.forward + cost.input + cost.weight;
    }
    pattern.period = std::max(pattern.period, load);
  }
  auto leanOf = [&](int64_t global) { return shape.chunkOf(global) % 2 ? -lean : lean; };
  double at = 0;
  for (int64_t global = 0; global < shape.chunks(); ++global) {
    pattern.forward[global] = at;
    at += stretch * (1 + leanOf(global)) * (times.chunks[global].forward + times.message);
  }
  for (int64_t global = shape.chunks(); global-- > 0;) {
    pattern.input[global] = at;
    at += stretch * (1 - leanOf(global)) * (times.chunks[global].input + times.message);
  }
  return pattern;
}

Pattern patternOf(const Shape &shape, const TaskTimes &times, const TimedOrders &schedule) {
  Pattern pattern = patternOf(shape, times, 1, 0); // its period
  pattern.told = shape.microbatches;
  pattern.forward.assign(shape.chunks() * shape.microbatches, 0);
  pattern.input = pattern.forward;
  for (int64_t stage = 0; stage < shape.stages; ++stage)
    for (size_t i = 0; i < schedule.orders[stage].size(); ++i) {
      const ScheduledTask &task = schedule.orders[stage][i];
      const int64_t global = shape.globalChunk(stage, task.chunk);
      const double start = schedule.ends[stage][i] - times.chunks[global].*costOf(task.kind);
      if (task.kind != TaskKind::weight)
        (task.kind == TaskKind::forward ? pattern.forward
                                        : pattern.input)[global * shape.microbatches + task.microbatch] = start;
    }
  return pattern;
}

double inFlight(const Shape &shape, const Pattern &pattern) {
  double most = 0;
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    double own = 0;
    for (int64_t chunk = 0; chunk < shape.virtualStages; ++chunk) {
      const int64_t global = shape.globalChunk(stage, chunk);
      own += (pattern.input[global] - pattern.forward[global]) / pattern.period;
    }
    most = std::max(most, own);
  }
  return most;
}

} // namespace mgc::schedule
