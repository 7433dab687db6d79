// See Resolve.h.
#include "runtime/exec/Resolve.h"

#include "plan/targets/AttentionWorkspace.h"

#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"
#include "runtime/kernels/CpuAttention.h"

#include <algorithm>
#include <map>

namespace mgc {

namespace {

class PlanResolver {
public:
  PlanResolver(const plan::Plan &plan, uint64_t seed, Communicator &communicator)
      : plan_(plan), seed_(seed), rank_(communicator.rank()), communicator_(communicator) {}
  Result<RankRecord> resolve();

private:
  Result<ChunkRecord> resolveChunk(const plan::Chunk &chunk);
  Status addCall(const plan::Call &call, ChunkRecord &to);
  Status addInstruction(const plan::Instruction &instruction, int64_t iteration, const plan::Call &call,
                        ChunkRecord &to);
  void addOperands(const plan::Instruction &instruction, int64_t iteration, const plan::Call &call,
                   ChunkRecord &to);
  StepRecord resolveStep(const plan::ExpandedStep &step, const std::vector<ChunkRecord> &chunks) const;
  int64_t evaluate(const plan::Scalar &scalar, const plan::Call &call) const;
  Result<GroupId> openGroup(const plan::Collective &collective, plan::Task task);

  Result<RowRecord> makeRecord(const plan::RowKernel &kernel, const plan::Call &call, ChunkRecord &to);
  Result<GemmRecord> makeRecord(const plan::Gemm &gemm, const plan::Call &, ChunkRecord &) {
    return GemmRecord{&gemm};
  }
  Result<AttentionRecord> makeRecord(const plan::Attention &attention, const plan::Call &call,
                                     ChunkRecord &to);
  Result<CollectiveRecord> makeRecord(const plan::Collective &collective, const plan::Call &,
                                      ChunkRecord &to);
  Result<MoveRecord> makeRecord(const plan::Move &move, const plan::Call &, ChunkRecord &);

  const plan::Plan &plan_;
  const uint64_t seed_;
  const int64_t rank_;
  Communicator &communicator_;
  std::map<std::pair<std::vector<int64_t>, int64_t>, GroupId> groups_; // by ranks and color
};

Result<RankRecord> PlanResolver::resolve() {
  RankRecord record;
  record.rank = rank_;
  record.stageIndex = plan::stageOf(plan_.mesh, rank_);
  record.stage = &plan_.stages[record.stageIndex];
  for (const plan::Chunk &chunk : record.stage->chunks) {
    MGC_ASSIGN(resolved, resolveChunk(chunk));
    for (const InstructionRecord &instruction : resolved.instructions)
      record.maxOperands = std::max(record.maxOperands, instruction.operandCount);
    record.maxSlots = std::max(record.maxSlots, static_cast<int64_t>(chunk.slots.size()));
    record.chunks.push_back(std::move(resolved));
  }
  for (const plan::ExpandedStep &step : plan::expandedSchedule(*record.stage)) {
    record.schedule.push_back(resolveStep(step, record.chunks));
    record.transfers += step.kind != plan::ExpandedStep::Kind::run;
  }
  const auto isUpdate = [&](const StepRecord &step) {
    return step.step.kind == plan::ExpandedStep::Kind::run &&
           record.stage->chunks[step.step.chunk].task == plan::Task::update;
  };
  record.updateStep =
      std::find_if(record.schedule.begin(), record.schedule.end(), isUpdate) - record.schedule.begin();
  return record;
}

Result<ChunkRecord> PlanResolver::resolveChunk(const plan::Chunk &chunk) {
  ChunkRecord record;
  record.chunk = &chunk;
  record.name = chunk.name();
  for (const plan::Call &call : plan::expandedCalls(chunk)) {
    record.callBegins.push_back(static_cast<int64_t>(record.instructions.size()));
    MGC_TRY(addCall(call, record).at(fmt::format("chunk {}", record.name)));
  }
  record.callBegins.push_back(static_cast<int64_t>(record.instructions.size()));
  return record;
}

Status PlanResolver::addCall(const plan::Call &call, ChunkRecord &to) {
  const plan::Program &program = plan_.programs[call.program];
  Status status = Status::ok();
  plan::forEachRun(program.instructions.size(), program.repeats, [&](int64_t number, int64_t iteration) {
    const plan::Instruction &instruction = program.instructions[number];
    if (status.isOk())
      status = addInstruction(instruction, iteration, call, to).at(instruction.label);
  });
  return status;
}

Status PlanResolver::addInstruction(const plan::Instruction &instruction, int64_t iteration,
                                    const plan::Call &call, ChunkRecord &to) {
  InstructionRecord record;
  record.instruction = &instruction;
  record.layer = call.instance;
  record.firstOperand = static_cast<int64_t>(to.operands.size());
  record.operandCount = static_cast<int64_t>(instruction.operands.size());
  addOperands(instruction, iteration, call, to);
  MGC_TRY(std::visit(
      [&](const auto &body) -> Status {
        MGC_ASSIGN(made, makeRecord(body, call, to));
        record.body = made;
        return Status::ok();
      },
      instruction.body));
  to.instructions.push_back(record);
  return Status::ok();
}

void PlanResolver::addOperands(const plan::Instruction &instruction, int64_t iteration,
                               const plan::Call &call, ChunkRecord &to) {
  for (const plan::Operand &operand : instruction.operands) {
    const plan::Binding &binding = call.segments[operand.segment];
    to.operands.push_back({binding.slot + 1, binding.offset + plan::inIteration(operand, iteration).offset});
  }
}

int64_t PlanResolver::evaluate(const plan::Scalar &scalar, const plan::Call &call) const {
  int64_t result = scalar.value;
  switch (scalar.kind) {
  case plan::Scalar::Kind::linear:
    for (const plan::Scalar::Term &term : scalar.terms)
      result += plan::coordinate(plan_.mesh, rank_, term.axes) * term.scale;
    return result;
  case plan::Scalar::Kind::instance:
    return call.instance;
  case plan::Scalar::Kind::seed:
    return static_cast<int64_t>(seed_);
  }
  return result;
}

Result<RowRecord> PlanResolver::makeRecord(const plan::RowKernel &kernel, const plan::Call &call,
                                           ChunkRecord &to) {
  const auto firstScalar = static_cast<int64_t>(to.scalars.size());
  for (const plan::Scalar &scalar : kernel.scalars)
    to.scalars.push_back(evaluate(scalar, call));
  return RowRecord{firstScalar};
}

// The kernel writes as much as it needs, whatever the plan says, and in whole vectors.
static Status verifyWorkspace(const plan::Attention &attention, plan::Target target,
                              const OperandRecord &workspace) {
  const int64_t needed = target == plan::Target::cpu ? attentionWorkspaceBytes(attention) : 0;
  if (attention.workspaceBytes < needed) // a device's plugin knows how much it needs
    return errorf("workspaceBytes = {}, expected at least {}; compile the plan again",
                  attention.workspaceBytes, needed);
  if (workspace.slot != 0 || workspace.offset % plan::kAlignment != 0)
    return errorf("the workspace lies at {} of slot {}, expected a multiple of {} in the allocation itself",
                  workspace.offset, workspace.slot - 1, plan::kAlignment);
  return Status::ok();
}

Result<AttentionRecord> PlanResolver::makeRecord(const plan::Attention &attention, const plan::Call &call,
                                                 ChunkRecord &to) {
  MGC_TRY(verifyWorkspace(attention, plan_.target, to.operands.back()));
  AttentionScalars scalars;
  scalars.seed = static_cast<uint64_t>(evaluate(attention.seed, call));
  scalars.instance = evaluate(attention.instance, call);
  scalars.headOffset = evaluate(attention.headOffset, call);
  return AttentionRecord{&attention, scalars, plan::coordinate(plan_.mesh, rank_, attention.queryAxes)};
}

Result<CollectiveRecord> PlanResolver::makeRecord(const plan::Collective &collective, const plan::Call &,
                                                  ChunkRecord &to) {
  MGC_ASSIGN(group, openGroup(collective, to.chunk->task));
  return CollectiveRecord{&collective, group};
}

Result<MoveRecord> PlanResolver::makeRecord(const plan::Move &move, const plan::Call &, ChunkRecord &) {
  return MoveRecord{&move, plan::coordinate(plan_.mesh, rank_, move.axes),
                    plan::groupSize(plan_.mesh, move.axes)};
}

// The runs of gradients have groups of their own: on the host another thread meets in them while layers meet in those of the
// same ranks.
Result<GroupId> PlanResolver::openGroup(const plan::Collective &collective, plan::Task task) {
  const std::vector<int64_t> ranks = collective.stages.empty()
                                         ? plan::groupOf(plan_.mesh, rank_, collective.axes)
                                         : plan::groupOfStages(plan_.mesh, rank_, collective.stages);
  const int64_t color = task == plan::Task::gradients ? 1 : 0;
  const auto known = groups_.find({ranks, color});
  if (known != groups_.end())
    return known->second;
  MGC_ASSIGN(group, communicator_.openGroup(ranks, color));
  groups_[{ranks, color}] = group;
  return group;
}

StepRecord PlanResolver::resolveStep(const plan::ExpandedStep &step,
                                     const std::vector<ChunkRecord> &chunks) const {
  if (step.kind == plan::ExpandedStep::Kind::run) {
    const ChunkRecord &chunk = chunks[step.chunk];
    const auto calls = static_cast<int64_t>(chunk.callBegins.size()) - 1;
    return {step, -1, chunk.callBegins[step.firstCall], chunk.callBegins[step.endCall(calls)]};
  }
  return {step, plan::rankAtStage(plan_.mesh, rank_, step.peer)};
}

} // namespace

Result<RankRecord> resolveRank(const plan::Plan &plan, uint64_t seed, Communicator &communicator) {
  return PlanResolver(plan, seed, communicator).resolve();
}

} // namespace mgc
