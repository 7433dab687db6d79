// See Resolve.h.
#include "runtime/exec/Resolve.h"

#include "runtime/exec/Labels.h"

#include "plan/Plan.h"
#include "plan/mesh/Mesh.h"

#include <algorithm>
#include <map>

namespace mgc {

namespace {

class PlanResolver {
public:
  PlanResolver(const plan::Plan &plan, uint64_t seed, Communicator &communicator)
      : plan_(plan), seed_(seed), rank_(communicator.rank()), communicator_(communicator),
        ofSeveralLayers_(programsOfSeveralLayers(plan)) {}
  Result<RankRecord> resolve();

private:
  Result<ChunkRecord> resolveChunk(const plan::Chunk &chunk);
  Status addCall(const plan::Call &call, ChunkRecord &to);
  Status addInstruction(const plan::Instruction &instruction, int64_t iteration, const plan::Call &call,
                        ChunkRecord &to);
  void addOperands(const plan::Instruction &instruction, int64_t iteration, const plan::Call &call, ChunkRecord &to);
  StepRecord resolveStep(const plan::ExpandedStep &step, const std::vector<ChunkRecord> &chunks) const;
  int64_t evaluate(const plan::Scalar &scalar, const plan::Call &call) const;
  Result<GroupId> openGroup(const plan::RankGroup &group, plan::Task task);

  const plan::Plan &plan_;
  const uint64_t seed_;
  const int64_t rank_;
  Communicator &communicator_;
  const std::set<int64_t> ofSeveralLayers_;                            // programs
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
  record.updateStep = std::find_if(record.schedule.begin(), record.schedule.end(), isUpdate) - record.schedule.begin();
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

Status PlanResolver::addInstruction(const plan::Instruction &instruction, int64_t iteration, const plan::Call &call,
                                    ChunkRecord &to) {
  InstructionRecord record;
  record.instruction = &instruction;
  record.layer = call.instance;
  record.isOfSeveralLayers = ofSeveralLayers_.contains(call.program);
  record.firstOperand = static_cast<int64_t>(to.operands.size());
  record.operandCount = static_cast<int64_t>(instruction.operands.size());
  addOperands(instruction, iteration, call, to);
  record.firstScalar = static_cast<int64_t>(to.scalars.size());
  for (const plan::Scalar *scalar : plan::runScalarsOf(instruction.body))
    to.scalars.push_back(evaluate(*scalar, call));
  record.scalarCount = static_cast<int64_t>(to.scalars.size()) - record.firstScalar;
  const plan::Axes &placement = plan::placementOf(instruction.body);
  record.coordinate = plan::coordinate(plan_.mesh, rank_, placement);
  record.coordinates = plan::groupSize(plan_.mesh, placement);
  if (const std::optional<plan::RankGroup> group = plan::groupOf(instruction.body))
    MGC_SET(record.group, openGroup(*group, to.chunk->task));
  to.instructions.push_back(record);
  return Status::ok();
}

void PlanResolver::addOperands(const plan::Instruction &instruction, int64_t iteration, const plan::Call &call,
                               ChunkRecord &to) {
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

// The runs of gradients have groups of their own: on the host another thread meets in them while layers meet in those of the
// same ranks.
Result<GroupId> PlanResolver::openGroup(const plan::RankGroup &group, plan::Task task) {
  const std::vector<int64_t> ranks = group.stages.empty() ? plan::groupOf(plan_.mesh, rank_, group.axes)
                                                          : plan::groupOfStages(plan_.mesh, rank_, group.stages);
  const int64_t color = task == plan::Task::gradients ? 1 : 0;
  const auto known = groups_.find({ranks, color});
  if (known != groups_.end())
    return known->second;
  MGC_ASSIGN(opened, communicator_.openGroup(ranks, color));
  groups_[{ranks, color}] = opened;
  return opened;
}

StepRecord PlanResolver::resolveStep(const plan::ExpandedStep &step, const std::vector<ChunkRecord> &chunks) const {
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
