// See ScheduleForm.h.
#include "compiler/schedule/ScheduleForm.h"

#include "compiler/schedule/solver/Text.h"
#include "compiler/stage/PipelineShape.h"
#include "compiler/stage/TaskCosts.h"

using namespace mlir;

namespace mgc::schedule {

namespace {

// Steps of one stage.
class StageReader {
public:
  StageReader(const Problem &problem, int64_t stage) : problem_(problem), stage_(stage) {}

  Result<StageSchedule> read(ScheduleOp schedule) {
    list_.bytes = schedule.getBytes();
    for (Operation &op : schedule.getBody().front()) {
      if (auto run = dyn_cast<RunOp>(op))
        MGC_TRY(addRun(run).at(fmt::format("stage {} step {}", stage_, list_.steps.size())));
      else if (auto send = dyn_cast<SendOp>(op))
        addTransfer(send, Step::Kind::send);
      else if (auto recv = dyn_cast<RecvOp>(op))
        addTransfer(recv, Step::Kind::recv);
      else
        return errorf("stage {}: {} is no step of a schedule", stage_, op.getName().getStringRef().str());
    }
    return std::move(list_);
  }

private:
  static Result<TaskKind> kindOf(StringRef pass) {
    if (std::optional<TaskKind> kind = plan::taskNamed(pass))
      return *kind;
    return errorf("runs {}, which is no pass", pass.str());
  }

  BufferUse addBuffer(BufferKind kind, const Step &step, int64_t bytes, int64_t offset) {
    list_.buffers.push_back({kind, step.task.chunk, step.microbatch, bytes, 0, 0, offset});
    return {kind, int64_t(list_.buffers.size()) - 1};
  }

  Status addRun(RunOp run) {
    MGC_ASSIGN(kind, kindOf(run.getPass()));
    if (run.getBuffers().size() != size_t(kBufferKinds))
      return errorf("has {} buffers, expected one place or -1 per kind: {}", run.getBuffers().size(),
                    kBufferKinds);
    Step step;
    step.task = {kind, int64_t(run.getChunk()), int64_t(run.getMicrobatch()),
                 int64_t(run.getPart().value_or(-1))};
    step.microbatch = step.task.microbatch;
    step.waits.assign(run.getWaits().begin(), run.getWaits().end());
    bool hasBuffers =
        plan::isPerMicrobatch(kind) && step.task.chunk >= 0 && step.task.chunk < problem_.shape.virtualStages;
    for (int64_t k = 0; hasBuffers && k < kBufferKinds; ++k) {
      BufferAccess access = problem_.access[int(kind)][k];
      int64_t bytes = bytesOf(problem_, stage_, step.task.chunk, BufferKind(k));
      if (access != BufferAccess::none && bytes > 0)
        (access == BufferAccess::read ? step.reads : step.writes)
            .push_back(addBuffer(BufferKind(k), step, bytes, run.getBuffers()[k]));
    }
    list_.steps.push_back(std::move(step));
    return Status::ok();
  }

  // The task is the run at this end: activations leave and enter forward, gradients the task that makes them.
  template <typename Op> void addTransfer(Op op, Step::Kind kind) {
    Step step;
    step.kind = kind;
    step.peer = op.getPeer();
    step.value = op.getValue();
    step.microbatch = op.getMicrobatch();
    step.bytes = op.getBytes();
    step.waits.assign(op.getWaits().begin(), op.getWaits().end());
    bool isGradient = step.value % 2 != 0, isSend = kind == Step::Kind::send;
    int64_t global = step.value / 2 + (isGradient == isSend);
    step.task = {isGradient ? TaskKind::backward : TaskKind::forward, problem_.shape.chunkOf(global),
                 step.microbatch};
    BufferKind buffer = isGradient ? (isSend ? BufferKind::gradientOut : BufferKind::gradientIn)
                                   : (isSend ? BufferKind::output : BufferKind::input);
    BufferUse use = addBuffer(buffer, step, step.bytes, op.getOffset());
    (isSend ? step.reads : step.writes).push_back(use);
    list_.steps.push_back(std::move(step));
  }

  const Problem &problem_;
  int64_t stage_;
  StageSchedule list_;
};

} // namespace

Result<Problem> readProblem(ModuleOp module, const Blocks &blocks) {
  Problem problem;
  problem.schedule = trainingString(module, "schedule");
  auto stages = llvm::to_vector(module.getOps<StageOp>());
  problem.shape = shapeOf(module, int64_t(stages.size()));
  problem.memory = trainingNumber(module, "schedule_memory", 1);
  if (std::string text = trainingString(module, "schedule_text"); !text.empty()) {
    MGC_ASSIGN(read, readScheduleText(text));
    if (read.shape != problem.shape)
      return errorf(
          "schedule_text is not for the stages, virtual_stages, microbatches and placement of mg.training");
    problem.orders = std::move(read.orders);
  }
  problem.costs.resize(problem.shape.chunks());
  for (auto [index, stage] : llvm::enumerate(stages)) {
    auto &sizes = problem.bytes.emplace_back();
    for (auto [number, chunk] : llvm::enumerate(stage.all<ChunkOp>())) {
      const std::vector<Instance> instances = blocks.instancesOf(chunk.getBody());
      sizes.push_back(ChunkLayout(instances).bytes());
      if (int64_t(number) < problem.shape.virtualStages)
        problem.costs[problem.shape.globalChunk(int64_t(index), int64_t(number))] = costOf(instances);
    }
    std::vector<int64_t> &parts = problem.parts.emplace_back(problem.shape.virtualStages, 0);
    for (ReductionOp reduction : stage.all<ReductionOp>())
      if (reduction.getChunk() < parts.size())
        ++parts[reduction.getChunk()];
  }
  MGC_ASSIGN(row, rowOf(problem));
  if (row.splitBackward != trainingFlag(module, "split_backward"))
    return errorf("schedule '{}' needs split_backward = {} in mg.training", problem.schedule,
                  row.splitBackward);
  if (problem.shape.stages > 0 && !problem.bytes.front().empty())
    problem.messageSeconds = messageCost(problem.bytes[0][0][size_t(BufferKind::output)]);
  return problem;
}

Status verifyName(const Problem &problem, const Solution &solution) {
  MGC_ASSIGN(row, rowOf(problem));
  if (row.byTime)
    return Status::ok(); // the name says no order
  const std::vector<Order> orders = row.orders(problem);
  for (size_t stage = 0; stage < solution.stages.size(); ++stage) {
    Order found;
    for (const Step &step : solution.stages[stage].steps)
      if (step.kind == Step::Kind::run && step.task.microbatch >= 0 && step.task.part <= 0)
        found.push_back({step.task.kind, step.task.chunk, step.task.microbatch});
    const auto [wrong, named] = std::ranges::mismatch(found, orders[stage]);
    if (wrong != found.end() && named != orders[stage].end())
      return errorf("stage {}: task {} is {}, where the schedule \"{}\" that mg.training names has {}", stage,
                    wrong - found.begin(), toString(*wrong), problem.schedule, toString(*named));
  }
  return Status::ok();
}

Result<Solution> readSolution(ModuleOp module, const Problem &problem) {
  Solution solution{problem.schedule, problem.shape, {}};
  for (auto [i, stage] : llvm::enumerate(module.getOps<StageOp>())) {
    auto schedules = stage.all<ScheduleOp>();
    if (schedules.size() != 1)
      return errorf("stage {} has {} schedules, expected one: run mg-schedule first", i, schedules.size());
    MGC_ASSIGN(list, StageReader(problem, i).read(schedules.front()));
    solution.stages.push_back(std::move(list));
  }
  return solution;
}

} // namespace mgc::schedule
