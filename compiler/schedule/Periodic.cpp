// See Periodic.h.
#include "compiler/schedule/Periodic.h"

#include "compiler/assemble/memory/MemorySolver.h"
#include "compiler/schedule/FindRepeats.h"

#include <algorithm>
#include <optional>

namespace mgc::schedule {
namespace {

// --- Repeats of a list -------------------------------------------------------------------------------------

std::vector<PeriodicStep> relativeSteps(const StageSchedule &stage) {
  std::vector<PeriodicStep> steps;
  for (size_t i = 0; i < stage.steps.size(); ++i) {
    Step step = stage.steps[i];
    for (int64_t &wait : step.waits)
      wait = int64_t(i) - wait;
    std::ranges::sort(step.waits);
    for (std::vector<BufferUse> *uses : {&step.reads, &step.writes})
      for (BufferUse &use : *uses)
        use.buffer = stage.buffers[use.buffer].ring;
    steps.push_back({std::move(step)});
  }
  return steps;
}

// All but their microbatches.
bool sameStep(const Step &a, const Step &b) {
  return a.kind == b.kind && a.task.kind == b.task.kind && a.task.chunk == b.task.chunk && a.task.part == b.task.part &&
         a.task.paired == b.task.paired && a.task.first == b.task.first && a.peer == b.peer && a.value == b.value &&
         a.bytes == b.bytes && (a.microbatch < 0) == (b.microbatch < 0) && a.reads == b.reads && a.writes == b.writes;
}

// The items of a list that a repeat does not cut: a pair of runs is one.
std::vector<std::vector<PeriodicStep>> withPairs(const std::vector<PeriodicStep> &steps) {
  std::vector<std::vector<PeriodicStep>> items;
  for (const PeriodicStep &step : steps)
    if (isPaired(step.step))
      items.back().push_back(step);
    else
      items.push_back({step});
  return items;
}

void addRepeats(const std::vector<PeriodicStep> &steps, PeriodicStage &out) {
  const std::vector<std::vector<PeriodicStep>> items = withPairs(steps);
  const auto stride = [&](size_t item, size_t i, size_t length) {
    return items[item + length][i].step.microbatch - items[item][i].step.microbatch;
  };
  const auto continues = [&](size_t from, size_t to, size_t length) {
    if (items[from].size() != items[to].size() || items[from].size() != items[from + length].size())
      return false;
    for (size_t i = 0; i < items[from].size(); ++i)
      if (const Step &a = items[from][i].step, &b = items[to][i].step;
          !sameStep(a, b) || a.waits != b.waits ||
          b.microbatch - a.microbatch != stride(from, i, length) * int64_t((to - from) / length))
        return false;
    return true;
  };
  for (const auto &[first, length, count] : findRepeatedParts(items.size(), continues)) {
    const auto begin = int64_t(out.steps.size());
    for (size_t item = first; item < first + length; ++item)
      for (size_t i = 0; i < items[item].size(); ++i) {
        out.steps.push_back(items[item][i]);
        out.steps.back().microbatchStride = count > 1 ? stride(item, i, length) : 0;
      }
    if (count > 1)
      out.repeats.push_back({begin, int64_t(out.steps.size()), count});
  }
}

int64_t leastBytesOf(const StageSchedule &stage) {
  std::vector<memory::LiveBuffer> buffers;
  for (const ScheduledBuffer &buffer : stage.buffers)
    if (buffer.kind != BufferKind::offloaded)
      buffers.push_back({buffer.bytes, buffer.begin, buffer.end});
  return memory::lowerBound(buffers);
}

PeriodicSolution periodic(const Solution &solution) {
  PeriodicSolution out{solution.shape, {}};
  for (const StageSchedule &stage : solution.stages)
    out.stages.push_back(findRepeats(stage));
  return out;
}

// --- From two solutions to one for more microbatches -------------------------------------------------------

// Numbers of `to` go on from `from` over so many times their difference. Nothing where the two differ in anything else.
class Extrapolation {
public:
  explicit Extrapolation(int64_t groups) : groups_(groups) {}

  bool extend(PeriodicSolution &to, const PeriodicSolution &from) {
    return to.stages.size() == from.stages.size() && all(to.stages, from.stages);
  }

private:
  template <typename T> bool all(std::vector<T> &to, const std::vector<T> &from) {
    if (to.size() != from.size())
      return false;
    for (size_t i = 0; i < to.size(); ++i)
      if (!extend(to[i], from[i]))
        return false;
    return true;
  }
  bool extend(int64_t &to, const int64_t &from) {
    to += groups_ * (to - from);
    return true;
  }
  bool extend(plan::Repeat &to, const plan::Repeat &from) {
    return to.begin == from.begin && to.end == from.end && extend(to.count, from.count);
  }
  // A phase goes around the slots.
  bool extend(plan::Ring::Turn &to, const plan::Ring::Turn &from) {
    if (!extend(to.first, from.first) || !extend(to.slots, from.slots) || !extend(to.phase, from.phase) || to.slots < 1)
      return false;
    to.phase = (to.phase % to.slots + to.slots) % to.slots;
    return true;
  }
  bool extend(plan::Ring &to, const plan::Ring &from) {
    return to.name == from.name && to.bytes == from.bytes && to.stride == from.stride &&
           extend(to.offset, from.offset) && all(to.turns, from.turns);
  }
  bool extend(PeriodicStep &to, const PeriodicStep &from) {
    return sameStep(to.step, from.step) && to.microbatchStride == from.microbatchStride &&
           extend(to.step.microbatch, from.step.microbatch) &&
           extend(to.step.task.microbatch, from.step.task.microbatch) && all(to.step.waits, from.step.waits);
  }
  bool extend(BufferArea &to, const BufferArea &from) {
    return to.kind == from.kind && to.chunk == from.chunk && to.stride == from.stride && extend(to.slots, from.slots) &&
           extend(to.begin, from.begin) && extend(to.end, from.end);
  }
  bool extend(PeriodicStage &to, const PeriodicStage &from) {
    return all(to.areas, from.areas) && all(to.steps, from.steps) && all(to.repeats, from.repeats) &&
           all(to.rings, from.rings) && extend(to.bytes, from.bytes) && extend(to.hostBytes, from.hostBytes) &&
           extend(to.leastBytes, from.leastBytes);
  }

  int64_t groups_;
};

std::optional<PeriodicSolution> extrapolate(PeriodicSolution to, const PeriodicSolution &from, int64_t groups) {
  return Extrapolation(groups).extend(to, from) ? std::optional(std::move(to)) : std::nullopt;
}

constexpr int64_t kAttempts = 3; // with samples of twice the size

// Microbatches for which each stage passes from its warm-up into steady state, goes around all rings and drains.
int64_t sampleOf(const Shape &shape, int64_t group) {
  return group > 1 ? (shape.virtualStages + 4) * shape.stages : 3 * shape.stages + 4;
}

Result<PeriodicSolution> generateFor(Problem problem, int64_t microbatches) {
  problem.shape.microbatches = microbatches;
  MGC_ASSIGN(solution, generate(problem));
  return periodic(solution);
}

} // namespace

// From three problems with `sample` microbatches and some groups more. Nothing where the third does not follow from the other
// two: the sample does not reach the steady state.
static Result<std::optional<PeriodicSolution>> generateFrom(const Problem &problem, int64_t sample, int64_t group) {
  MGC_ASSIGN(first, generateFor(problem, sample));
  MGC_ASSIGN(second, generateFor(problem, sample + group));
  MGC_ASSIGN(third, generateFor(problem, sample + 2 * group));
  const int64_t groups = (problem.shape.microbatches - sample - 2 * group) / group;
  std::optional<PeriodicSolution> expected = extrapolate(second, first, 1), found = extrapolate(third, second, groups);
  if (!expected || expected->stages != third.stages || !found)
    return std::optional<PeriodicSolution>();
  found->shape = problem.shape;
  return found;
}

PeriodicStage findRepeats(const StageSchedule &stage) {
  PeriodicStage out;
  addRepeats(relativeSteps(stage), out);
  out.rings = stage.rings;
  out.bytes = stage.bytes;
  out.hostBytes = stage.hostBytes;
  out.leastBytes = leastBytesOf(stage);
  out.areas = stage.areas;
  return out;
}

Result<PeriodicSolution> generatePeriodic(const Problem &problem) {
  MGC_ASSIGN(row, rowOf(problem));
  const int64_t group = groupOf(problem.shape), microbatches = problem.shape.microbatches;
  const bool isPeriodic = problem.orders.empty() && !row.byTime; // as far as known before planning
  int64_t sample = sampleOf(problem.shape, group);
  for (int64_t attempt = 0; attempt < kAttempts && isPeriodic; ++attempt, sample *= 2) {
    sample = microbatches - (microbatches - sample) / group * group; // as many more as full groups
    if (microbatches <= sample + 3 * group)
      break;
    MGC_ASSIGN(found, generateFrom(problem, sample, group));
    if (found)
      return *std::move(found);
  }
  return generateFor(problem, microbatches);
}

} // namespace mgc::schedule
