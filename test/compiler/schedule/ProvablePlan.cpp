// See ProvablePlan.h.
#include "test/compiler/schedule/ProvablePlan.h"

#include "plan/Expand.h"
#include "plan/prove/ProvePlan.h"

#include <algorithm>
#include <map>

namespace mgc::schedule {

namespace {

constexpr int64_t kLine = plan::kAlignment;

int64_t resultCount() { return static_cast<int64_t>(plan::kResults.size()); }

plan::Program meetingOf(const char *name, std::vector<int64_t> stages) {
  plan::Collective collective;
  collective.stages = std::move(stages);
  collective.chunk = resultCount();
  plan::Program program{.name = name, .segments = {"results"}, .segmentBytes = {4 * resultCount()}};
  program.instructions = {{collective, {{0, 0}, {0, 0}}, name}};
  return program;
}

plan::Program fillOf(const char *name, int64_t bytes) {
  plan::Program program{.name = name, .segments = {"filled"}, .segmentBytes = {bytes}};
  program.instructions = {{plan::Move{.kind = plan::Move::Kind::fill, .bytes = bytes}, {{0, 0}}, "fill"}};
  return program;
}

// The plan's first programs.
enum { kBegin, kReduce, kFillCell };

class StageBuilder {
public:
  StageBuilder(plan::Plan &plan, const PeriodicStage &from) : plan_(plan), from_(from) {}

  plan::StagePlan build() {
    stage_.rings = from_.rings;
    stage_.repeats = from_.repeats;
    stage_.stepScalarsOffset = from_.bytes;
    stage_.resultsOffset = from_.bytes + kLine;
    stage_.bytes = from_.bytes + 2 * kLine;
    for (const PeriodicStep &step : from_.steps) // all calls of a chunk are made with its first run
      if (const ScheduledTask &task = step.step.task; task.kind == TaskKind::gradients) {
        if (cells_.try_emplace({task.chunk, task.part}, stage_.bytes).second)
          stage_.bytes += kLine;
      } else if (task.part >= 0) {
        completing_ = task.kind;
      }
    stage_.regions = {{"activations", 0, from_.bytes}, {"scalars", from_.bytes, stage_.bytes - from_.bytes}};
    for (const PeriodicStep &step : from_.steps)
      add(step);
    return std::move(stage_);
  }

private:
  void add(const PeriodicStep &periodic) {
    const Step &step = periodic.step;
    plan::ScheduleStep out{.kind = plan::ScheduleStep::Kind(step.kind), .microbatch = step.microbatch};
    out.microbatchStride = periodic.microbatchStride;
    out.waits = step.waits;
    if (step.kind == Step::Kind::run) {
      out.chunk = chunkOf(step);
      out.paired = step.task.paired;
      if (step.task.part >= 0)
        out.firstCall = step.task.part, out.callCount = 1;
    } else {
      out.ring = (step.reads.empty() ? step.writes : step.reads).front().buffer;
      stage_.rings[out.ring].peer = step.peer, stage_.rings[out.ring].value = step.value;
    }
    stage_.schedule.push_back(std::move(out));
  }

  int64_t chunkOf(const Step &step) {
    const auto [known, isNew] =
        chunks_.try_emplace({step.task.kind, step.task.chunk, step.task.first}, int64_t(stage_.chunks.size()));
    if (!isNew)
      return known->second;
    plan::Chunk &chunk = stage_.chunks.emplace_back();
    chunk.task = step.task.kind;
    chunk.first = step.task.first;
    chunk.virtualStage = std::max<int64_t>(step.task.chunk, 0);
    const plan::Call results{.program = step.task.kind == TaskKind::begin ? kBegin : kReduce,
                             .segments = {{-1, stage_.resultsOffset}}};
    if (step.task.kind == TaskKind::begin || step.task.kind == TaskKind::reduce)
      chunk.calls = {results};
    if (step.task.kind == completing_ && cells_.contains({step.task.chunk, 0}))
      for (int64_t part = 0; cells_.contains({step.task.chunk, part}); ++part)
        chunk.calls.push_back(callOf(step, chunk, cells_.at({step.task.chunk, part})));
    else if (step.microbatch >= 0)
      chunk.calls = {callOf(step, chunk, 0)};
    for (const auto &[key, cell] : cells_)
      if (step.task.kind == TaskKind::reduce || (step.task.kind == TaskKind::gradients && key.first == step.task.chunk))
        chunk.calls.push_back({.program = kFillCell,
                               .instance = cell, // calls of a program differ in it
                               .segments = {{-1, cell}}});
    return known->second;
  }

  // cell 0: none.
  plan::Call callOf(const Step &step, plan::Chunk &chunk, int64_t cell) {
    plan::Program program{.name = toString(step.task)};
    plan::RowKernel kernel{.symbol = "kernel", .range = 1};
    plan::Call call{.program = int64_t(plan_.programs.size())};
    std::vector<plan::Operand> operands;
    for (const auto *uses : {&step.reads, &step.writes})
      for (const BufferUse &use : *uses) {
        const int64_t bytes = from_.rings[use.buffer].bytes, number = int64_t(operands.size());
        program.segments.push_back(nameOf(use.kind));
        program.segmentBytes.push_back(bytes);
        kernel.uses.push_back({uses == &step.reads ? plan::OperandUse::read : plan::OperandUse::written, bytes});
        operands.push_back({number, 0});
        const auto slot = std::ranges::find(chunk.slots, use.buffer);
        call.segments.push_back({slot - chunk.slots.begin(), 0});
        if (slot == chunk.slots.end())
          chunk.slots.push_back(use.buffer);
      }
    program.instructions = {{kernel, operands, program.name + "/kernel"}};
    if (cell > 0) {
      program.segments.push_back("cell"), program.segmentBytes.push_back(kLine);
      call.segments.push_back({-1, cell});
      program.instructions.push_back({plan::Move{.kind = plan::Move::Kind::fill, .bytes = kLine},
                                      {{int64_t(program.segments.size()) - 1, 0}},
                                      program.name + "/cell"});
    }
    plan_.programs.push_back(std::move(program));
    return call;
  }

  plan::Plan &plan_;
  const PeriodicStage &from_;
  plan::StagePlan stage_;
  std::map<std::tuple<TaskKind, int64_t, bool>, int64_t> chunks_;
  std::optional<TaskKind> completing_;                   // the task that runs in parts
  std::map<std::pair<int64_t, int64_t>, int64_t> cells_; // offset by chunk and part
};

} // namespace

plan::Plan provablePlan(const PeriodicSolution &solution) {
  plan::Plan plan;
  plan.mesh.axes = {{"pp", solution.shape.stages, plan::AxisRole::stage}};
  plan.mesh.named = {{"pp", {"pp"}}};
  plan.sequenceLength = plan.microBatchSize = plan.vocabulary = 1;
  plan.microbatches = plan.globalBatchSize = solution.shape.microbatches;
  plan.virtualStages = solution.shape.virtualStages;
  if (solution.shape.stages > 1 && solution.shape.virtualStages > 1)
    plan.placement = solution.shape.placement;
  plan.kernels = {{plan::KernelLevel::v3, "kernels/none.so", 0}};
  std::vector<int64_t> everyone;
  for (int64_t stage = 0; stage < solution.shape.stages; ++stage)
    everyone.push_back(stage);
  plan.programs = {fillOf("begin", 4 * resultCount()), meetingOf("reduce", everyone), fillOf("fill", kLine)};
  for (const PeriodicStage &stage : solution.stages)
    plan.stages.push_back(StageBuilder(plan, stage).build());
  return plan;
}

plan::Plan provablePlan(const Problem &problem, const Solution &solution) {
  PeriodicSolution periodic{problem.shape, {}};
  std::ranges::transform(solution.stages, std::back_inserter(periodic.stages), findRepeats);
  return provablePlan(periodic);
}

plan::StagePlan unrolled(plan::StagePlan stage) {
  std::vector<plan::ScheduleStep> steps;
  plan::forEachRun(stage.schedule.size(), stage.repeats, [&](int64_t item, int64_t iteration) {
    plan::ScheduleStep &step = steps.emplace_back(stage.schedule[item]);
    step.microbatch += iteration * std::exchange(step.microbatchStride, 0);
  });
  stage.schedule = std::move(steps);
  stage.repeats.clear();
  return stage;
}

Status prove(const Problem &problem, const Solution &solution) {
  return plan::provePlan(provablePlan(problem, solution));
}

} // namespace mgc::schedule
