// The table of accesses, look-up of a schedule, and checks of a problem.
#include "compiler/schedule/Schedule.h"

#include "compiler/schedule/CheckOrders.h"

#include <algorithm>

namespace mgc::schedule {

AccessTable defaultAccess() {
  AccessTable table{};
  auto set = [&](TaskKind task, BufferAccess access, std::initializer_list<BufferKind> kinds) {
    for (BufferKind kind : kinds)
      table[int(task)][int(kind)] = access;
  };
  using enum BufferKind;
  set(TaskKind::forward, BufferAccess::read, {input});
  set(TaskKind::forward, BufferAccess::write, {activation, offloaded, output});
  set(TaskKind::backward, BufferAccess::read, {input, activation, offloaded, gradientIn});
  set(TaskKind::backward, BufferAccess::write, {gradientOut});
  set(TaskKind::input, BufferAccess::read, {input, activation, offloaded, gradientIn});
  set(TaskKind::input, BufferAccess::write, {gradientOut, split});
  set(TaskKind::weight, BufferAccess::read, {input, activation, offloaded, split});
  return table;
}

bool Problem::isFirst(int64_t stage, const ScheduledTask &task) const {
  return task.kind == TaskKind::forward && task.microbatch == 0 && !opened.empty() && opened[stage][task.chunk];
}

bool Problem::isIdle(int64_t stage, int64_t chunk, TaskKind task) const {
  return !idle.empty() && std::ranges::find(idle[stage][chunk], task) != idle[stage][chunk].end();
}

int64_t bytesOf(const Problem &problem, int64_t stage, int64_t chunk, BufferKind kind) {
  int64_t global = problem.shape.globalChunk(stage, chunk);
  bool isBefore = kind == BufferKind::input || kind == BufferKind::gradientOut;
  bool isAfter = kind == BufferKind::output || kind == BufferKind::gradientIn;
  if ((isBefore && global == 0) || (isAfter && global + 1 == problem.shape.chunks()))
    return 0;
  return problem.bytes[stage][chunk][int(kind)];
}

// A stage runs each chunk forward and back per microbatch, and receives and sends at both of its ends. A row
// may pad the microbatches to a multiple of the stages.
int64_t mostMicrobatches(const ScheduleRow &row, int64_t stages, int64_t virtualStages) {
  const int64_t stepsEach = (row.splitBackward ? 3 : 2) + (stages > 1 ? 4 : 0);
  const int64_t ofSteps = kMaxSteps / stepsEach / virtualStages, ofTasks = kMaxTasks / stages / virtualStages;
  return std::max<int64_t>(std::min(ofSteps, ofTasks) - stages, 0);
}

static Status checkMicrobatches(const ScheduleRow &row, const Shape &shape) {
  const int64_t most = mostMicrobatches(row, shape.stages, shape.virtualStages);
  if (shape.microbatches <= most)
    return Status::ok();
  return errorf("{} microbatches make more than {} steps on a stage, or {} tasks in all; at most {} with {} stages and "
                "{} virtual stages: larger microbatches make fewer",
                shape.microbatches, kMaxSteps, kMaxTasks, most, shape.stages, shape.virtualStages);
}

// Names of the rows that take so many virtual stages; 0: of all rows.
static std::string rowNames(int64_t virtualStages) {
  std::vector<std::string_view> names;
  for (const ScheduleRow &row : schedules())
    if (virtualStages == 0 || (row.minVirtualStages <= virtualStages && virtualStages <= row.maxVirtualStages))
      names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<const ScheduleRow *> findSchedule(const std::string &name, const Shape &shape) {
  auto row = std::find_if(schedules().begin(), schedules().end(), [&](const ScheduleRow &r) { return name == r.name; });
  if (row == schedules().end())
    return errorf("there is no schedule \"{}\"; possible: {}", name, rowNames(0));
  if (shape.stages < 1 || shape.virtualStages < 1 || shape.microbatches < 1)
    return errorf("{} stages, {} virtual stages, {} microbatches: each is at least 1", shape.stages,
                  shape.virtualStages, shape.microbatches);
  if (shape.virtualStages < row->minVirtualStages)
    return errorf("schedule \"{}\" takes at least {} virtual stages, not {}", name, row->minVirtualStages,
                  shape.virtualStages);
  if (shape.virtualStages > row->maxVirtualStages)
    return errorf("schedule \"{}\" takes at most {} virtual stage(s), not {}; with so many: {}", name,
                  row->maxVirtualStages, shape.virtualStages, rowNames(shape.virtualStages));
  if (shape.virtualStages > 1 && shape.placement != row->placement)
    return errorf("schedule \"{}\" has its chunks in placement {}, not {}", name, nameOf(row->placement),
                  nameOf(shape.placement));
  MGC_TRY(checkMicrobatches(*row, shape));
  return &*row;
}

Result<ScheduleRow> rowOf(const Problem &problem) {
  if (problem.orders.empty()) {
    MGC_ASSIGN(row, findSchedule(problem.schedule, problem.shape));
    return *row;
  }
  MGC_TRY(checkOrders(problem.shape, problem.orders).at(fmt::format("schedule \"{}\"", problem.schedule)));
  ScheduleRow row{problem.schedule.c_str(), "given task by task", false, false, 1, INT64_MAX, [](const Problem &own) {
                    return own.orders;
                  }};
  row.placement = problem.shape.placement;
  row.splitBackward = isSplit(problem.orders);
  MGC_TRY(checkMicrobatches(row, problem.shape));
  return row;
}

static Status checkParts(const Problem &problem) {
  const Shape &shape = problem.shape;
  if (problem.parts.empty())
    return Status::ok();
  if (int64_t(problem.parts.size()) != shape.stages)
    return errorf("parts for {} stages, expected {}", problem.parts.size(), shape.stages);
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    const std::vector<int64_t> &parts = problem.parts[stage];
    if (int64_t(parts.size()) != shape.virtualStages)
      return errorf("stage {}: parts for {} chunks, expected {}", stage, parts.size(), shape.virtualStages);
    int64_t all = 0;
    for (int64_t count : parts) {
      if (count < 0 || count > kMaxParts - all)
        return errorf("stage {}: its last backward is in {} parts and more; expected at most {} of all its chunks: "
                      "larger buckets of gradients make fewer",
                      stage, all + std::max<int64_t>(count, 0), kMaxParts);
      all += count;
    }
  }
  return Status::ok();
}

Status checkSizes(const Problem &problem) {
  const Shape &shape = problem.shape;
  MGC_TRY(checkParts(problem));
  if (int64_t(problem.bytes.size()) != shape.stages)
    return errorf("sizes for {} stages, expected {}", problem.bytes.size(), shape.stages);
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    if (int64_t(problem.bytes[stage].size()) != shape.virtualStages)
      return errorf("stage {}: sizes for {} chunks, expected {}", stage, problem.bytes[stage].size(),
                    shape.virtualStages);
    for (const Sizes &sizes : problem.bytes[stage])
      for (int64_t bytes : sizes)
        if (bytes < 0)
          return errorf("stage {}: a buffer of {} bytes", stage, bytes);
  }
  for (int64_t global = 0; global + 1 < shape.chunks(); ++global) {
    const Sizes &front = problem.bytes[shape.stageOf(global)][shape.chunkOf(global)];
    const Sizes &back = problem.bytes[shape.stageOf(global + 1)][shape.chunkOf(global + 1)];
    auto agree = [&](BufferKind sent, const Sizes &from, BufferKind received, const Sizes &to) {
      return from[int(sent)] == to[int(received)];
    };
    if (front[int(BufferKind::output)] == 0 || !agree(BufferKind::output, front, BufferKind::input, back))
      return errorf("global chunk {} has an output of {} bytes and chunk {} an input of {}; they must be equal and "
                    "positive",
                    global, front[int(BufferKind::output)], global + 1, back[int(BufferKind::input)]);
    if (!agree(BufferKind::gradientOut, back, BufferKind::gradientIn, front))
      return errorf("global chunk {} has a gradientOut of {} bytes and chunk {} a gradientIn of {}; they must be equal",
                    global + 1, back[int(BufferKind::gradientOut)], global, front[int(BufferKind::gradientIn)]);
  }
  return Status::ok();
}

} // namespace mgc::schedule
