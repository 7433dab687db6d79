// See Picture.h.
#include "plan/play/Picture.h"

#include "plan/play/Player.h"

#include <algorithm>
#include <fmt/format.h>

namespace mgc::schedule {

namespace {

// Parts of a task follow each other like its time units.
std::string labelOf(const PlayStep &step, int64_t iteration, int64_t virtualStages) {
  const ScheduledTask &task = step.task;
  if (task.part > 0)
    return ".";
  std::string label(1, letterOf(task.kind));
  if (task.microbatch >= 0)
    label += std::to_string(task.microbatch + iteration * step.microbatchStride);
  if (task.microbatch >= 0 && virtualStages > 1)
    label += task.chunk < 26 ? std::string(1, char('a' + task.chunk)) : "." + std::to_string(task.chunk);
  return label;
}

// A time unit is as wide as the longest label, in columns, and as long as the shortest run that is no part.
struct TimeUnit {
  size_t width = 0;
  double seconds = INFINITY;
};

TimeUnit unitOf(const PlayLists &lists, int64_t virtualStages) {
  TimeUnit unit;
  for (const PlayList &list : lists.stages)
    for (const plan::Repeat &part : partsOf(list))
      for (int64_t item = part.begin; item < part.end; ++item) {
        const PlayStep &step = list.steps[item];
        for (int64_t iteration : {int64_t(0), part.count - 1})
          unit.width = std::max(unit.width, labelOf(step, iteration, virtualStages).size() + 1);
        if (step.isOnCompute() && step.task.part < 0 && step.seconds > 0)
          unit.seconds = std::min(unit.seconds, step.seconds);
      }
  return unit;
}

bool isDrawn(const PlayStep &step) { return step.isOnCompute() && step.seconds > 0; }

class Row {
public:
  Row(const StepTimes &times, int64_t virtualStages, const TimeUnit &unit)
      : times_(times), virtualStages_(virtualStages), unit_(unit) {}

  // Draws the steps that have times. Others that follow them lie behind the last column.
  std::string draw(const PlayList &list, int64_t columns) {
    int64_t left = 0;
    for (const plan::Repeat &part : partsOf(list)) {
      for (int64_t item = part.begin; item < part.end; ++item)
        left += isDrawn(list.steps[item]) ? part.count : 0;
      for (int64_t iteration = 0; iteration < part.count && number_ < times_.start.size(); ++iteration)
        for (int64_t item = part.begin; item < part.end && number_ < times_.start.size(); ++item)
          add(list.steps[item], iteration);
    }
    text_.erase(text_.find_last_not_of(' ') + 1);
    if (left > drawn_)
      text_.resize(std::max(text_.size(), size_t(columns)), ' ');
    return std::move(text_);
  }

private:
  void add(const PlayStep &step, int64_t iteration) {
    const double start = times_.start[number_], end = times_.end[number_];
    ++number_;
    if (!isDrawn(step))
      return;
    ++drawn_;
    const auto begin = size_t(std::lround(start / unit_.seconds)), last = size_t(std::lround(end / unit_.seconds));
    text_.resize(std::max(text_.size(), begin * unit_.width), ' ');
    for (size_t cell = begin; cell < last; ++cell) {
      const std::string text = cell == begin ? labelOf(step, iteration, virtualStages_) : ".";
      text_ += text + std::string(unit_.width - text.size(), ' ');
    }
  }

  const StepTimes &times_;
  const int64_t virtualStages_;
  const TimeUnit &unit_;
  std::string text_;
  size_t number_ = 0; // the next step
  int64_t drawn_ = 0; // steps so far
};

} // namespace

// Only what the columns show is played.
std::string draw(const PlayLists &lists, int64_t virtualStages, int64_t maxColumns) {
  const TimeUnit unit = unitOf(lists, virtualStages);
  const double units = double(maxColumns) / double(unit.width) + 1;
  const std::vector<StepTimes> times = timesOfSteps(lists, units * unit.seconds);
  const size_t name = fmt::format("stage {}", lists.stages.size() - 1).size();
  std::string text;
  for (size_t s = 0; s < lists.stages.size(); ++s) {
    std::string row = fmt::format("{:<{}} |", fmt::format("stage {}", s), name);
    row += Row(times[s], virtualStages, unit).draw(lists.stages[s], maxColumns);
    if (int64_t(row.size()) > maxColumns)
      row = row.substr(0, size_t(std::max<int64_t>(0, maxColumns - 3))) + "...";
    text += row + "\n";
  }
  return text;
}

std::string draw(const plan::Plan &plan, int64_t maxColumns) {
  PlayCosts costs;
  for (const plan::StagePlan &stage : plan.stages) {
    costs.chunks.emplace_back();
    for (const plan::Chunk &chunk : stage.chunks) {
      double ChunkCost::*field = costOf(chunk.task);
      costs.chunks.back().push_back(field ? ChunkCost().*field : 0);
    }
  }
  return draw(listsOf(plan, costs), plan.virtualStages, maxColumns);
}

} // namespace mgc::schedule
