// The proof of a solution, from nothing but the problem and the meaning of the list. Four parts: the lists
// are well formed; every task stands where it must; messages match and no stage waits for ever (Match.cpp);
// data is where and when it is needed (VerifyData.cpp).
#include "test/compiler/schedule/VerifySolution.h"

#include "test/compiler/schedule/SolutionNetwork.h"
#include "test/compiler/schedule/VerifyData.h"

#include "compiler/assemble/memory/MemorySolver.h"
#include "runtime/base/Checked.h"

#include <algorithm>

namespace mgc::schedule {
namespace {

// --- Well formed: whatever the later parts use as an index is one ------------------------------------------

bool inside(int64_t value, int64_t bound) { return 0 <= value && value < bound; }

std::string checkStep(const Shape &shape, const StageSchedule &list, int64_t stage, int64_t index) {
  const Step &step = list.steps[index];
  for (int64_t wait : step.waits)
    if (!inside(wait, index))
      return fmt::format("waits for step {}; a step waits for earlier steps", wait);
  for (const std::vector<BufferUse> *uses : {&step.reads, &step.writes})
    for (const BufferUse &use : *uses)
      if (!inside(use.buffer, int64_t(list.buffers.size())) || !inside(int64_t(use.kind), kBufferKinds))
        return fmt::format("uses buffer {} of {}", use.buffer, list.buffers.size());
  if (!inside(int64_t(step.kind), 3) || !inside(int64_t(step.task.kind), kTaskKinds))
    return "is of no known kind";
  const bool isEach = plan::isPerMicrobatch(step.task.kind), hasChunk = plan::isPerVirtualStage(step.task.kind);
  if (step.microbatch != step.task.microbatch)
    return fmt::format("has microbatch {}, its task {}", step.microbatch, step.task.microbatch);
  if ((!isEach && step.kind != Step::Kind::run) ||
      (hasChunk ? !inside(step.task.chunk, shape.virtualStages) : step.task.chunk != -1) ||
      (isEach ? !inside(step.microbatch, shape.microbatches) : step.microbatch != -1))
    return fmt::format("has chunk {} of {} and microbatch {} of {}", step.task.chunk, shape.virtualStages,
                       step.microbatch, shape.microbatches);
  if (step.task.part < -1 || (step.task.part >= 0 && (step.kind != Step::Kind::run || !hasChunk)))
    return fmt::format("has part {}", step.task.part);
  if (step.task.paired) {
    const Step *first = index > 0 ? &list.steps[index - 1] : nullptr;
    if (step.kind != Step::Kind::run || !isEach || step.task.part >= 0 || !step.waits.empty())
      return "is paired; expected a whole run of a microbatch, without waits";
    if (!first || first->kind != Step::Kind::run || first->microbatch < 0 || first->task.paired ||
        first->task.part >= 0)
      return "is paired; expected the first of the pair right before it";
  }
  if (step.kind == Step::Kind::run)
    return "";
  if (!inside(step.peer, shape.stages) || step.peer == stage)
    return fmt::format("has peer {}; it must be another of {} stages", step.peer, shape.stages);
  if (!inside(step.value, 2 * (shape.chunks() - 1)) || step.bytes <= 0)
    return fmt::format("has value {} of {} and {} bytes", step.value, 2 * (shape.chunks() - 1), step.bytes);
  return "";
}

void checkForm(const Problem &problem, const Solution &solution, Problems &problems) {
  for (int64_t stage = 0; stage < problem.shape.stages; ++stage) {
    const StageSchedule &list = solution.stages[stage];
    for (size_t i = 0; i < list.buffers.size(); ++i) {
      const ScheduledBuffer &buffer = list.buffers[i];
      if (buffer.offset % memory::kAlignment || !fitsInside(buffer.offset, buffer.bytes, list.bytes))
        problems.add("stage {} buffer {}: offset {} with {} bytes is not a multiple of {} inside [0, {})", stage, i,
                     buffer.offset, buffer.bytes, memory::kAlignment, list.bytes);
    }
    for (size_t i = 0; i < list.steps.size(); ++i)
      if (std::string fault = checkStep(problem.shape, list, stage, int64_t(i)); !fault.empty())
        problems.add("stage {} step {} {}", stage, i, fault);
  }
}

// --- Tasks: each exactly once, after what it needs on its own stage ----------------------------------------

class TaskCheck {
public:
  TaskCheck(const ScheduleRow &row, const Problem &problem, const StageSchedule &list, int64_t stage,
            Problems &problems)
      : row(row), problem(problem), shape(problem.shape), list(list), stage(stage), problems(problems),
        position(kTaskKinds * shape.virtualStages * shape.microbatches, -1) {}

  void check() {
    std::vector<TaskKind> once; // begin, reduce, update as they come; forward stands for all tasks between
    for (size_t i = 0; i < list.steps.size(); ++i) {
      const Step &step = list.steps[i];
      if (step.kind != Step::Kind::run)
        continue;
      if (step.task.kind == TaskKind::gradients) {
        recordPart(gradients, step.task, int64_t(i));
        continue;
      }
      if (step.microbatch >= 0)
        record(step.task, int64_t(i));
      TaskKind kind = step.microbatch < 0 ? step.task.kind : TaskKind::forward;
      if (once.empty() || once.back() != kind || step.microbatch < 0)
        once.push_back(kind);
    }
    if (once != std::vector{TaskKind::begin, TaskKind::forward, TaskKind::reduce, TaskKind::update})
      problems.add("stage {}: the list must run begin, then all microbatches, then reduce and update, each once",
                   stage);
    for (int64_t chunk = 0; chunk < shape.virtualStages; ++chunk) {
      for (int64_t m = 0; m < shape.microbatches; ++m)
        checkChain(chunk, m);
      if (int64_t parts = problem.partsOf(stage, chunk); made[chunk] != parts || gradients[chunk] != parts)
        problems.add("stage {}: chunk {} has {} parts; {} are made, and the gradients of {} completed", stage, chunk,
                     parts, made[chunk], gradients[chunk]);
    }
  }

private:
  // Into how many parts a task is cut.
  int64_t partsOf(const ScheduledTask &task) const {
    const bool isCompleting = task.kind == (row.splitBackward ? TaskKind::weight : TaskKind::backward);
    return isCompleting && task.microbatch + 1 == shape.microbatches ? problem.partsOf(stage, task.chunk) : 0;
  }

  // The next of the parts of a chunk, or of the gradients that they make; VerifyData.cpp has their order.
  void recordPart(std::vector<int64_t> &next, const ScheduledTask &task, int64_t step) {
    if (task.part != next[task.chunk])
      problems.add("stage {} step {} runs {}, expected part {}", stage, step, toString(task), next[task.chunk]);
    ++next[task.chunk];
  }

  int64_t &at(TaskKind kind, int64_t chunk, int64_t m) {
    return position[(int64_t(kind) * shape.virtualStages + chunk) * shape.microbatches + m];
  }

  void record(const ScheduledTask &task, int64_t step) {
    int64_t &first = at(task.kind, task.chunk, task.microbatch);
    if (partsOf(task) > 0)
      recordPart(made, task, step);
    else if (task.part >= 0)
      problems.add("stage {} step {} runs {}, which has no parts", stage, step, toString(task));
    if (first >= 0 && task.part > 0)
      return;
    bool isExpected = task.kind == TaskKind::forward || (task.kind != TaskKind::backward) == row.splitBackward;
    if (first >= 0)
      problems.add("stage {}: steps {} and {} both run {}", stage, first, step, toString(task));
    else if (!isExpected)
      problems.add("stage {} step {}: schedule \"{}\" has no task {}", stage, step, row.name, nameOf(task.kind));
    first = step;
  }

  void checkChain(int64_t chunk, int64_t m) {
    static const std::vector<TaskKind> whole = {TaskKind::forward, TaskKind::backward};
    static const std::vector<TaskKind> split = {TaskKind::forward, TaskKind::input, TaskKind::weight};
    int64_t last = -1;
    for (TaskKind kind : row.splitBackward ? split : whole) {
      int64_t step = at(kind, chunk, m);
      if (step < 0)
        problems.add("stage {}: nothing runs {}", stage, toString(ScheduledTask{kind, chunk, m}));
      else if (step < last)
        problems.add("stage {} step {} runs {} before step {}, which it needs", stage, step,
                     toString(ScheduledTask{kind, chunk, m}), last);
      last = std::max(last, step);
    }
  }

  const ScheduleRow &row;
  const Problem &problem;
  const Shape &shape;
  const StageSchedule &list;
  int64_t stage;
  Problems &problems;
  std::vector<int64_t> position; // step of each task or its first part, [kind][chunk][microbatch]; -1: none
  std::vector<int64_t> made = std::vector<int64_t>(shape.virtualStages, 0); // parts run so far, by chunk
  std::vector<int64_t> gradients = made; // parts among these whose gradients are completed
};

} // namespace

Status verify(const Problem &problem, const Solution &solution) {
  MGC_ASSIGN(row, rowOf(problem));
  MGC_TRY(checkSizes(problem));
  if (int64_t(solution.stages.size()) != problem.shape.stages)
    return errorf("the solution has {} stages, the problem {}", solution.stages.size(), problem.shape.stages);
  Problems problems;
  checkForm(problem, solution, problems);
  MGC_TRY(problems.status());
  for (int64_t stage = 0; stage < problem.shape.stages; ++stage) {
    TaskCheck(row, problem, solution.stages[stage], stage, problems).check();
    verifyData(problem, solution, stage, problems);
  }
  Network network = networkOf(solution);
  checkMatching(network, problems);
  (void)play(network, problems);
  return problems.status();
}

} // namespace mgc::schedule
