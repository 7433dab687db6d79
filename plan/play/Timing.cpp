// See Timing.h.
#include "plan/play/Timing.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace mgc::schedule {

double Costs::*stepCostOf(TaskKind kind) {
  return kind == TaskKind::begin ? &Costs::begin : kind == TaskKind::reduce ? &Costs::reduce : &Costs::update;
}

namespace {

double secondsOf(const Costs &costs, const Shape &shape, int64_t stage, const ScheduledTask &task) {
  double ChunkCost::*field = costOf(task.kind);
  if (!field)
    return costs.*stepCostOf(task.kind);
  if (const auto first = costs.firsts.find({task.kind, shape.globalChunk(stage, task.chunk)});
      task.first && first != costs.firsts.end())
    return first->second;
  return (costs.chunks.empty() ? ChunkCost() : costs.chunks[shape.globalChunk(stage, task.chunk)]).*field;
}

// The number of the list's steps that are parts of the same task as `task`.
int64_t countParts(const StageSchedule &list, ScheduledTask task) {
  return std::ranges::count_if(list.steps, [&](const Step &step) {
    task.part = step.task.part;
    return step.kind == Step::Kind::run && step.task == task;
  });
}

// Parts of a task take equally long.
double secondsOf(const Costs &costs, const Solution &solution, int64_t stage, const Step &step) {
  if (step.kind != Step::Kind::run)
    return costs.messageLatency + costs.secondsPerByte * double(step.bytes);
  const double whole = secondsOf(costs, solution.shape, stage, step.task);
  return step.task.part < 0 ? whole : whole / double(countParts(solution.stages[stage], step.task));
}

// By how much shorter or longer the runs of a pair are together than one after the other: a factor; 1 of what is no pair.
double pairFactor(const Costs &costs, const Solution &solution, int64_t stage, size_t index) {
  const std::vector<Step> &steps = solution.stages[stage].steps;
  const size_t second = isPaired(steps[index]) ? index : index + 1;
  if (costs.pairs.empty() || second == steps.size() || !isPaired(steps[second]))
    return 1;
  Costs::Pair pair;
  double alone = 0;
  for (size_t i = 0; i < 2; ++i) {
    const ScheduledTask &task = steps[second - 1 + i].task;
    pair[i] = {task.kind, solution.shape.globalChunk(stage, task.chunk)};
    alone += secondsOf(costs, solution.shape, stage, task);
  }
  const auto known = costs.pairs.find(pair);
  return known == costs.pairs.end() || alone <= 0 ? 1 : known->second / alone;
}

// Parts of a task follow each other like its time units.
std::string labelOf(const ScheduledTask &task, const Shape &shape) {
  if (task.part > 0)
    return ".";
  std::string label(1, letterOf(task.kind));
  if (task.microbatch >= 0)
    label += std::to_string(task.microbatch);
  if (task.microbatch >= 0 && shape.virtualStages > 1)
    label += task.chunk < 26 ? std::string(1, char('a' + task.chunk)) : "." + std::to_string(task.chunk);
  return label;
}

// One time unit of the picture: the shortest run that is no part.
double unitOf(const Solution &solution, const Timing &timing) {
  double unit = INFINITY;
  for (size_t s = 0; s < timing.stages.size(); ++s)
    for (size_t i = 0; i < timing.stages[s].start.size(); ++i)
      if (const StageTiming &stage = timing.stages[s];
          stage.isRun[i] && solution.stages[s].steps[i].task.part < 0 && stage.end[i] > stage.start[i])
        unit = std::min(unit, stage.end[i] - stage.start[i]);
  return unit;
}

std::string drawRow(const StageTiming &timing, const std::vector<std::string> &labels, double unit, size_t width) {
  std::string row;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!timing.isRun[i] || !(timing.end[i] > timing.start[i]))
      continue;
    size_t begin = size_t(std::lround(timing.start[i] / unit)), end = size_t(std::lround(timing.end[i] / unit));
    row.resize(std::max(row.size(), begin * width), ' ');
    for (size_t cell = begin; cell < end; ++cell) {
      std::string text = cell == begin ? labels[i] : ".";
      row += text + std::string(width - text.size(), ' ');
    }
  }
  return row;
}

// Plays the lists of all stages against each other. A stage issues its steps in order; one whose waits are not done holds up
// all behind it.
class ListClock {
public:
  ListClock(const Solution &solution, const Costs &costs)
      : solution_(solution), costs_(costs), stages_(solution.stages.size()) {
    for (const StageSchedule &list : solution.stages) {
      StageTiming &stage = timing_.stages.emplace_back();
      stage.start.assign(list.steps.size(), std::nan(""));
      stage.end = stage.done = stage.start;
      for (const Step &step : list.steps)
        stage.isRun.push_back(step.kind == Step::Kind::run && step.task.kind != TaskKind::gradients);
    }
  }

  Timing run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t stage = 0; stage < stages_.size(); ++stage)
        while (stages_[stage].next < solution_.stages[stage].steps.size() && advance(stage))
          progress = true;
    }
    return std::move(timing_);
  }

private:
  struct Stage {
    size_t next = 0;                                            // the step to issue
    double clock = 0, gradients = 0;                            // when its streams are free
    std::map<std::pair<int64_t, Step::Kind>, double> lastStart; // by stream of messages
    size_t met = 0;                                             // meetings passed
    bool hasArrived = false;                                    // at the next meeting
  };
  struct Meeting { // a collective of all stages
    size_t arrived = 0;
    double last = 0;
  };
  struct Posted { // one end of a message
    size_t step = 0;
    double start = 0;
  };
  struct Way { // from one stage to another: the k-th send meets the k-th receive
    std::vector<Posted> sends, receives;
  };

  // NaN: something that it waits for is not done.
  double readyTime(size_t stage, const Step &step) const {
    double ready = 0;
    for (int64_t wait : step.waits) {
      const double end = timing_.stages[stage].done[wait];
      if (std::isnan(end))
        return end;
      ready = std::max(ready, end);
    }
    return ready;
  }

  bool advance(size_t stage) {
    const Step &step = solution_.stages[stage].steps[stages_[stage].next];
    const double ready = readyTime(stage, step);
    if (std::isnan(ready) || (step.kind == Step::Kind::run ? !run(stage, step, ready) : !post(stage, step, ready)))
      return false;
    ++stages_[stage].next;
    return true;
  }

  // Time that a stage waits for others at a meeting is idle.
  bool run(size_t s, const Step &step, double ready) {
    Stage &stage = stages_[s];
    double &clock = step.task.kind == TaskKind::gradients ? stage.gradients : stage.clock;
    clock = std::max(clock, ready);
    if ((step.task.kind == TaskKind::reduce || step.task.kind == TaskKind::update) && !meet(stage))
      return false;
    StageTiming &timing = timing_.stages[s];
    const double seconds =
        secondsOf(costs_, solution_, int64_t(s), step) * pairFactor(costs_, solution_, int64_t(s), stage.next);
    timing.start[stage.next] = clock;
    timing.end[stage.next] = timing.done[stage.next] = clock += seconds;
    if (isPaired(step))
      timing.done[stage.next - 1] = clock;
    timing.busy += timing.isRun[stage.next] ? seconds : 0;
    return true;
  }

  // Whether all stages have come.
  bool meet(Stage &stage) {
    meetings_.resize(std::max(meetings_.size(), stage.met + 1));
    Meeting &meeting = meetings_[stage.met];
    if (!std::exchange(stage.hasArrived, true))
      meeting = {meeting.arrived + 1, std::max(meeting.last, stage.clock)};
    if (meeting.arrived < stages_.size())
      return false;
    stage.clock = meeting.last;
    stage.hasArrived = false;
    ++stage.met;
    return true;
  }

  bool post(size_t s, const Step &step, double ready) {
    Stage &stage = stages_[s];
    double &last = stage.lastStart[{step.peer, step.kind}];
    last = std::max(last, ready);
    timing_.stages[s].start[stage.next] = last;
    const bool isSend = step.kind == Step::Kind::send;
    const int64_t self = int64_t(s);
    Way &way = ways_[isSend ? std::pair(self, step.peer) : std::pair(step.peer, self)];
    std::vector<Posted> &mine = isSend ? way.sends : way.receives, &others = isSend ? way.receives : way.sends;
    mine.push_back({stage.next, last});
    if (others.size() < mine.size())
      return true;
    const Posted &other = others[mine.size() - 1];
    const double end = std::max(last, other.start) + secondsOf(costs_, solution_, self, step);
    for (auto [timing, index] :
         {std::pair(&timing_.stages[s], stage.next), std::pair(&timing_.stages[step.peer], other.step)})
      timing->end[index] = timing->done[index] = end;
    return true;
  }

  const Solution &solution_;
  const Costs &costs_;
  std::vector<Stage> stages_;
  std::vector<Meeting> meetings_;
  std::map<std::pair<int64_t, int64_t>, Way> ways_; // (source, target)
  Timing timing_;
};

} // namespace

Timing simulate(const Solution &solution, const Costs &costs) {
  Timing timing = ListClock(solution, costs).run();
  double busy = 0;
  for (const StageTiming &stage : timing.stages) {
    busy += stage.busy;
    for (double end : stage.end)
      timing.makespan = std::max(timing.makespan, std::isnan(end) ? 0 : end);
  }
  if (timing.makespan <= 0)
    return timing;
  for (StageTiming &stage : timing.stages)
    stage.idle = 1 - stage.busy / timing.makespan;
  timing.idle = 1 - busy / (timing.makespan * double(timing.stages.size()));
  return timing;
}

std::string draw(const Solution &solution, const Costs &costs, int64_t maxColumns) {
  Timing timing = simulate(solution, costs);
  double unit = unitOf(solution, timing);
  std::vector<std::vector<std::string>> labels;
  size_t width = 0, name = fmt::format("stage {}", solution.stages.size() - 1).size();
  for (const StageSchedule &stage : solution.stages) {
    labels.emplace_back();
    for (const Step &step : stage.steps) {
      labels.back().push_back(labelOf(step.task, solution.shape));
      width = std::max(width, labels.back().back().size() + 1);
    }
  }
  std::string text;
  for (size_t s = 0; s < solution.stages.size(); ++s) {
    std::string row = fmt::format("{:<{}} |", fmt::format("stage {}", s), name);
    row += drawRow(timing.stages[s], labels[s], unit, width);
    row.erase(row.find_last_not_of(' ') + 1);
    if (int64_t(row.size()) > maxColumns)
      row = row.substr(0, size_t(std::max<int64_t>(0, maxColumns - 3))) + "...";
    text += row + "\n";
  }
  return text;
}

} // namespace mgc::schedule
