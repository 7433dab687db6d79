// See Periodic.h.
#include "compiler/schedule/Periodic.h"

#include "compiler/assemble/memory/MemorySolver.h"
#include "compiler/schedule/FindRepeats.h"
#include "compiler/schedule/Rings.h"

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

  bool extend(std::vector<KindSlots> &to, const std::vector<KindSlots> &from) { return all(to, from); }
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
  bool extend(SlotGroup &to, const SlotGroup &from) {
    return to.chunks == from.chunks && extend(to.slots, from.slots) && extend(to.begin, from.begin) &&
           extend(to.end, from.end);
  }
  bool extend(KindSlots &to, const KindSlots &from) {
    return to.kind == from.kind && all(to.apart, from.apart) && all(to.alike, from.alike) &&
           to.shared.has_value() == from.shared.has_value() && (!to.shared || extend(*to.shared, *from.shared));
  }
  bool extend(PeriodicStage &to, const PeriodicStage &from) {
    return all(to.slots, from.slots) && all(to.areas, from.areas) && all(to.steps, from.steps) &&
           all(to.repeats, from.repeats) && all(to.rings, from.rings) && extend(to.bytes, from.bytes) &&
           extend(to.hostBytes, from.hostBytes) && extend(to.leastBytes, from.leastBytes);
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

// `stages`, if wanted: the buffers of the stages.
Result<PeriodicSolution> generateFor(Problem problem, int64_t microbatches,
                                     std::vector<StageSchedule> *stages = nullptr) {
  problem.shape.microbatches = microbatches;
  MGC_ASSIGN(solution, generate(problem));
  PeriodicSolution out = periodic(solution);
  for (StageSchedule &stage : solution.stages)
    if (stages)
      stages->emplace_back().buffers = std::move(stage.buffers);
  return out;
}

} // namespace

namespace {

// Two solutions for many microbatches, the second for a group more than the first, from which others follow.
struct PeriodicSample {
  PeriodicSolution before, last;
  int64_t microbatches = 0, group = 1; // microbatches of the last
  // The buffers of their stages.
  std::vector<StageSchedule> buffersBefore, buffersLast;
  PeriodicSolution extended(const Shape &shape) const {
    std::optional<PeriodicSolution> found = extrapolate(last, before, (shape.microbatches - microbatches) / group);
    found->shape = shape;
    return *std::move(found);
  }
};

// From three problems with `sample` microbatches and some groups more. Nothing where the third does not follow from the other
// two: the sample does not reach the steady state.
Result<std::optional<PeriodicSample>> sampleFrom(const Problem &problem, int64_t sample, int64_t group) {
  MGC_ASSIGN(first, generateFor(problem, sample));
  PeriodicSample out{{}, {}, sample + 2 * group, group, {}, {}};
  MGC_ASSIGN(second, generateFor(problem, sample + group, &out.buffersBefore));
  MGC_ASSIGN(third, generateFor(problem, sample + 2 * group, &out.buffersLast));
  const std::optional<PeriodicSolution> expected = extrapolate(second, first, 1);
  if (!expected || expected->stages != third.stages || !extrapolate(third, second, 1))
    return std::optional<PeriodicSample>();
  out.before = std::move(second), out.last = std::move(third);
  return std::optional(std::move(out));
}

// Nothing where the problem has few microbatches, or does not repeat as far as samples show.
Result<std::optional<PeriodicSample>> findSample(const Problem &problem) {
  MGC_ASSIGN(row, rowOf(problem));
  const int64_t group = groupOf(problem.shape), microbatches = problem.shape.microbatches;
  const bool isPeriodic = problem.orders.empty() && !row.byTime; // as far as known before planning
  int64_t sample = sampleOf(problem.shape, group);
  for (int64_t attempt = 0; attempt < kAttempts && isPeriodic; ++attempt, sample *= 2) {
    sample = microbatches - (microbatches - sample) / group * group; // as many more as full groups
    if (microbatches <= sample + 3 * group)
      break;
    MGC_ASSIGN(found, sampleFrom(problem, sample, group));
    if (found)
      return std::move(found);
  }
  return std::optional<PeriodicSample>();
}

} // namespace

PeriodicStage findRepeats(const StageSchedule &stage) {
  PeriodicStage out;
  addRepeats(relativeSteps(stage), out);
  out.rings = stage.rings;
  out.bytes = stage.bytes;
  out.hostBytes = stage.hostBytes;
  out.leastBytes = leastBytesOf(stage);
  out.areas = stage.areas;
  out.slots = stage.slots;
  return out;
}

Result<PeriodicSolution> generatePeriodic(const Problem &problem) {
  MGC_ASSIGN(sample, findSample(problem));
  return sample ? sample->extended(problem.shape) : generateFor(problem, problem.shape.microbatches);
}

// --- Problems of other sizes ---------------------------------------------------------------------------------

namespace {

// Slots of the stages' buffers in the two solutions of a sample; without one, in both the only one.
struct SlotsOfStages {
  std::vector<std::vector<KindSlots>> before, last;
};

} // namespace

struct SolutionCache::Known {
  std::optional<PeriodicSample> sample;
  PeriodicSolution solution; // without a sample: of the one number of microbatches
  std::vector<StageSchedule> buffers;
  std::map<std::string, SlotsOfStages> slots; // by the pattern of sizes
};

namespace {

// Whether policies of recomputation change how large such buffers are: lists do not depend on which are as large as others.
bool dependsOnPolicy(size_t kind) {
  return kind == size_t(BufferKind::activation) || kind == size_t(BufferKind::split) ||
         kind == size_t(BufferKind::offloaded);
}

// A problem whose buffers are as large as others where these are, and of no bytes where these are.
Problem withoutSizes(Problem problem) {
  for (size_t kind = 0; kind < size_t(kBufferKinds); ++kind) {
    std::map<int64_t, int64_t> numbers = {{0, 0}};
    for (const std::vector<Sizes> &stage : problem.bytes)
      for (const Sizes &chunk : stage)
        numbers.try_emplace(chunk[kind]);
    constexpr int64_t kLeast = int64_t(1) << 10; // sizes are about equal
    for (int64_t next = kLeast; auto &[bytes, number] : numbers)
      number = bytes == 0 ? 0 : plan::kAlignment * next++;
    for (std::vector<Sizes> &stage : problem.bytes)
      for (Sizes &chunk : stage)
        chunk[kind] = numbers.at(chunk[kind]);
  }
  return problem;
}

// The same with all buffers that policies change as large as one another.
Problem withoutPolicies(Problem problem) {
  for (std::vector<Sizes> &stage : problem.bytes)
    for (Sizes &chunk : stage)
      for (size_t kind = 0; kind < size_t(kBufferKinds); ++kind)
        if (dependsOnPolicy(kind) && chunk[kind] > 0)
          chunk[kind] = plan::kAlignment;
  return problem;
}

std::string textOfSizes(const Problem &problem) {
  std::string text;
  for (const std::vector<Sizes> &stage : problem.bytes)
    for (const Sizes &chunk : stage)
      for (const int64_t bytes : chunk)
        fmt::format_to(std::back_inserter(text), " {}", bytes / plan::kAlignment);
  return text;
}

// A send's buffer is the producer's, a recv's the consumer's.
int64_t bytesOfMessage(const Problem &problem, int64_t stage, const Step &step) {
  const bool isGradient = makesGradient(step.task.kind);
  const BufferKind kind = step.kind == Step::Kind::send ? (isGradient ? BufferKind::gradientOut : BufferKind::output)
                                                        : (isGradient ? BufferKind::gradientIn : BufferKind::input);
  return problem.bytes[size_t(stage)][size_t(step.task.chunk)][size_t(kind)];
}

// All that a solution without sizes depends on, but for the microbatches.
std::string textOf(const Problem &problem) {
  const Shape &shape = problem.shape;
  std::string text =
      fmt::format("{} {} {} {}", problem.schedule, shape.stages, shape.virtualStages, int(shape.placement));
  text += textOfSizes(problem);
  for (const auto &stage : problem.idle)
    for (const auto &chunk : stage) {
      text += " i";
      for (const TaskKind task : chunk)
        text += fmt::format(" {}", int(task));
    }
  for (const auto &stage : problem.opened)
    for (const bool opened : stage)
      text += opened ? " o" : " -";
  for (const auto &stage : problem.parts)
    for (const int64_t parts : stage)
      text += fmt::format(" {}", parts);
  for (const bool shares : problem.sharesTotals)
    text += shares ? " t" : " -";
  return text;
}

// The slots of the buffers of such sizes.
Result<std::vector<std::vector<KindSlots>>> slotsOf(std::vector<StageSchedule> stages, const Problem &problem) {
  std::vector<std::vector<KindSlots>> all;
  for (size_t s = 0; s < stages.size(); ++s) {
    StageSchedule sized;
    sized.buffers = std::move(stages[s].buffers);
    for (ScheduledBuffer &buffer : sized.buffers)
      buffer.bytes = problem.bytes[s][size_t(buffer.chunk)][size_t(buffer.kind)];
    MGC_TRY(placeBuffers(sized, groupOf(problem.shape)));
    all.push_back(std::move(sized.slots));
  }
  return all;
}

} // namespace

Result<PeriodicSolution> SolutionCache::solve(const Problem &problem) {
  MGC_ASSIGN(row, rowOf(problem));
  if (row.byTime || !problem.orders.empty())
    return generatePeriodic(problem);
  const Problem sized = withoutSizes(problem), plain = withoutSizes(withoutPolicies(problem));
  const std::string text = textOf(plain);
  const int64_t group = groupOf(problem.shape), microbatches = problem.shape.microbatches;
  const std::string ofMany = fmt::format("{} mod {}", text, microbatches % group),
                    ofThese = fmt::format("{} of {}", text, microbatches);
  auto found = known_.find(ofThese);
  if (found == known_.end()) {
    found = known_.find(ofMany);
    if (found != known_.end() && microbatches < found->second->sample->microbatches)
      found = known_.end();
  }
  if (found == known_.end()) {
    auto known = std::make_shared<Known>();
    MGC_SET(known->sample, findSample(plain));
    if (!known->sample)
      MGC_SET(known->solution, generateFor(plain, microbatches, &known->buffers));
    found = known_.insert_or_assign(known->sample ? ofMany : ofThese, std::move(known)).first;
  }
  Known &known = *found->second;
  const auto [slots, isNew] = known.slots.try_emplace(textOfSizes(sized));
  if (isNew) {
    MGC_SET(slots->second.last, slotsOf(known.sample ? known.sample->buffersLast : known.buffers, sized));
    if (known.sample)
      MGC_SET(slots->second.before, slotsOf(known.sample->buffersBefore, sized));
  }
  PeriodicSolution solution = known.sample ? known.sample->extended(problem.shape) : known.solution;
  for (size_t s = 0; s < solution.stages.size(); ++s) {
    PeriodicStage &stage = solution.stages[s];
    stage.slots = slots->second.last[s];
    if (known.sample)
      Extrapolation((microbatches - known.sample->microbatches) / group).extend(stage.slots, slots->second.before[s]);
    stage.areas = areasOf(stage.slots, problem.bytes[s]);
    for (PeriodicStep &step : stage.steps)
      if (step.step.kind != Step::Kind::run)
        step.step.bytes = bytesOfMessage(problem, int64_t(s), step.step);
    MGC_SET(stage.bytes, bytesOfSlots(stage.slots, problem.bytes[s], false));
    MGC_SET(stage.hostBytes, bytesOfSlots(stage.slots, problem.bytes[s], true));
  }
  return solution;
}

} // namespace mgc::schedule
