// See Timing.h.
#include "compiler/assemble/schedule/Timing.h"

#include "compiler/assemble/schedule/SolutionNetwork.h"

#include <algorithm>
#include <cmath>

namespace mgc::schedule {
namespace {

double secondsOf(const Costs &costs, const Shape &shape, int64_t stage, const ScheduledTask &task) {
  ChunkCost chunk;
  if (task.chunk >= 0 && !costs.chunks.empty())
    chunk = costs.chunks[shape.globalChunk(stage, task.chunk)];
  switch (task.kind) {
  case TaskKind::begin:
    return costs.begin;
  case TaskKind::forward:
    return chunk.forward;
  case TaskKind::backward:
    return chunk.backward;
  case TaskKind::input:
    return chunk.input;
  case TaskKind::weight:
    return chunk.weight;
  case TaskKind::gradients:
    return chunk.gradients;
  case TaskKind::reduce:
    return costs.reduce;
  case TaskKind::update:
    return costs.update;
  }
  return 0;
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

char letterOf(TaskKind kind) {
  static constexpr char letters[] = {'Z', 'F', 'B', 'I', 'W', 'G', 'R', 'U'};
  return letters[int(kind)];
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

std::string drawRow(const StageTiming &timing, const std::vector<std::string> &labels, double unit,
                    size_t width) {
  std::string row;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!timing.isRun[i] || !(timing.end[i] > timing.start[i]))
      continue;
    size_t begin = size_t(std::lround(timing.start[i] / unit)),
           end = size_t(std::lround(timing.end[i] / unit));
    row.resize(std::max(row.size(), begin * width), ' ');
    for (size_t cell = begin; cell < end; ++cell) {
      std::string text = cell == begin ? labels[i] : ".";
      row += text + std::string(width - text.size(), ' ');
    }
  }
  return row;
}

} // namespace

Timing simulate(const Solution &solution, const Costs &costs) {
  Network network = networkOf(solution);
  for (size_t stage = 0; stage < network.stages.size(); ++stage)
    for (size_t i = 0; i < network.stages[stage].size(); ++i)
      network.stages[stage][i].seconds =
          secondsOf(costs, solution, int64_t(stage), solution.stages[stage].steps[i]);
  Problems ignored;
  Times times = play(network, ignored);
  Timing timing;
  double busy = 0;
  for (size_t s = 0; s < network.stages.size(); ++s) {
    StageTiming &stage = timing.stages.emplace_back();
    stage.start = std::move(times.start[s]);
    stage.end = std::move(times.end[s]);
    for (size_t i = 0; i < network.stages[s].size(); ++i) {
      stage.isRun.push_back(network.stages[s][i].kind == NetworkStep::Kind::run &&
                            !network.stages[s][i].ofGradients);
      stage.busy += stage.isRun[i] ? network.stages[s][i].seconds : 0;
      timing.makespan = std::max(timing.makespan, std::isnan(stage.end[i]) ? 0 : stage.end[i]);
    }
    busy += stage.busy;
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
