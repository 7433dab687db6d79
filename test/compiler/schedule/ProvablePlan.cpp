// See ProvablePlan.h.
#include "test/compiler/schedule/ProvablePlan.h"

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

plan::Program zeroResults() {
  plan::Move fill;
  fill.kind = plan::Move::Kind::fill;
  fill.bytes = 4 * resultCount();
  plan::Program program{.name = "begin", .segments = {"results"}, .segmentBytes = {4 * resultCount()}};
  program.instructions = {{fill, {{0, 0}}, "begin/fill"}};
  return program;
}

class StageBuilder {
public:
  StageBuilder(plan::Plan &plan, const PeriodicStage &from) : plan_(plan), from_(from) {}

  plan::StagePlan build() {
    stage_.rings = from_.rings;
    stage_.repeats = from_.repeats;
    stage_.regions = {{"activations", 0, from_.bytes}, {"scalars", from_.bytes, 2 * kLine}};
    stage_.bytes = from_.bytes + 2 * kLine;
    stage_.stepScalarsOffset = from_.bytes;
    stage_.resultsOffset = from_.bytes + kLine;
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
    } else {
      out.ring = (step.reads.empty() ? step.writes : step.reads).front().buffer;
      stage_.rings[out.ring].peer = step.peer, stage_.rings[out.ring].value = step.value;
    }
    stage_.schedule.push_back(std::move(out));
  }

  int64_t chunkOf(const Step &step) {
    const auto [known, isNew] = chunks_.try_emplace({step.task.kind, step.task.chunk}, int64_t(stage_.chunks.size()));
    if (!isNew)
      return known->second;
    plan::Chunk &chunk = stage_.chunks.emplace_back();
    chunk.task = step.task.kind;
    chunk.virtualStage = std::max<int64_t>(step.task.chunk, 0);
    if (step.microbatch >= 0)
      chunk.calls = {callOf(step, chunk)};
    else if (step.task.kind != TaskKind::update)
      chunk.calls = {{.program = step.task.kind == TaskKind::begin ? 0 : 1, .segments = {{-1, stage_.resultsOffset}}}};
    return known->second;
  }

  plan::Call callOf(const Step &step, plan::Chunk &chunk) {
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
        call.segments.push_back({number, 0});
        chunk.slots.push_back(use.buffer);
      }
    program.instructions = {{kernel, operands, program.name + "/kernel"}};
    plan_.programs.push_back(std::move(program));
    return call;
  }

  plan::Plan &plan_;
  const PeriodicStage &from_;
  plan::StagePlan stage_;
  std::map<std::pair<TaskKind, int64_t>, int64_t> chunks_;
};

} // namespace

plan::Plan provablePlan(const PeriodicSolution &solution) {
  plan::Plan plan;
  plan.mesh.axes = {{"pp", solution.shape.stages, plan::AxisRole::stage}};
  plan.mesh.named = {{"pp", {"pp"}}};
  plan.sequenceLength = plan.microBatchSize = plan.vocabulary = 1;
  plan.microbatches = plan.globalBatchSize = solution.shape.microbatches;
  plan.virtualStages = solution.shape.virtualStages;
  plan.kernels = {{plan::KernelLevel::v3, "kernels/none.so", 0}};
  std::vector<int64_t> everyone;
  for (int64_t stage = 0; stage < solution.shape.stages; ++stage)
    everyone.push_back(stage);
  plan.programs = {zeroResults(), meetingOf("reduce", everyone)};
  for (const PeriodicStage &stage : solution.stages)
    plan.stages.push_back(StageBuilder(plan, stage).build());
  return plan;
}

} // namespace mgc::schedule
