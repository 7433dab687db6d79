#include "runtime/exec/StepJoins.h"

#include "plan/Plan.h"
#include "runtime/exec/JoinPoints.h"

#include <limits>
#include <map>
#include <tuple>

namespace mgc {

namespace {

// An operand's bytes, wherever its slot lies, and whether they are written.
struct Extent {
  int64_t bytes = 0;
  bool isWritten = false;
};

constexpr int64_t kGroups =
    int64_t(1) << 62; // behind every address: a byte for each group, which its collectives write

class Joiner {
public:
  Joiner(const plan::Plan &plan, const RankRecord &record, const LaneOf &laneOf, bool keepsGroups)
      : plan_(plan), record_(record), laneOf_(laneOf), keepsGroups_(keepsGroups) {
    for (const ChunkRecord &chunk : record.chunks)
      extents_.push_back(extentsOf(chunk));
  }
  std::vector<Join> joinsOf(const StepRecord &run) const;
  std::vector<int64_t> turnsOf(const StepRecord &run, std::span<const Join> joins) const;
  bool hasLanes(const StepRecord &run) const;

private:
  bool hasExchange(const StepRecord &run, int64_t lane, int64_t begin, int64_t end) const;
  std::vector<Extent> extentsOf(const ChunkRecord &chunk) const;
  void append(const plan::Instruction &instruction, std::vector<Extent> &extents) const;
  std::vector<JoinPoints::Access> accessesOf(const StepRecord &run, int64_t instruction) const;

  const plan::Plan &plan_;
  const RankRecord &record_;
  const LaneOf &laneOf_;
  const bool keepsGroups_;
  std::vector<std::vector<Extent>> extents_; // by chunk, parallel to its operands
};

std::vector<Extent> Joiner::extentsOf(const ChunkRecord &chunk) const {
  std::vector<Extent> extents;
  for (const InstructionRecord &instruction : chunk.instructions)
    append(*instruction.instruction, extents);
  return extents;
}

void Joiner::append(const plan::Instruction &instruction, std::vector<Extent> &extents) const {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max() / 4; // a plan that verifies has no such operand
  for (const plan::OperandInfo &info : plan::operandsOf(plan_.mesh, instruction.body))
    extents.push_back({info.span().value_or(kAll), info.isWritten()});
}

std::vector<JoinPoints::Access> Joiner::accessesOf(const StepRecord &run, int64_t instruction) const {
  const plan::ExpandedStep &step = run.step;
  const ChunkRecord &chunk = record_.chunks[step.chunk];
  const InstructionRecord &record = chunk.instructions[instruction];
  std::vector<JoinPoints::Access> accesses;
  for (int64_t i = record.firstOperand; i < record.firstOperand + record.operandCount; ++i) {
    const auto &[slot, offset] = chunk.operands[i];
    const auto &[bytes, isWritten] = extents_[step.chunk][i];
    const int64_t begin = (slot == 0 ? 0 : step.slots[slot - 1]) + offset;
    accesses.push_back({begin, begin + bytes, isWritten});
  }
  if (record.group >= 0 && keepsGroups_)
    accesses.push_back({kGroups + record.group, kGroups + record.group + 1, true});
  return accesses;
}

bool Joiner::hasLanes(const StepRecord &run) const {
  for (int64_t i = run.firstInstruction; i < run.endInstruction; ++i)
    if (laneOf_(run.step.chunk, i) != JoinPoints::kMain)
      return true;
  return false;
}

std::vector<Join> Joiner::joinsOf(const StepRecord &run) const {
  if (!hasLanes(run))
    return {};
  JoinPoints points;
  std::vector<Join> joins;
  const auto add = [&](int64_t before, const std::vector<int64_t> &works) {
    for (int64_t work : works)
      joins.push_back({before, run.firstInstruction + work});
  };
  for (int64_t i = run.firstInstruction; i < run.endInstruction; ++i)
    add(i, points.enqueue(laneOf_(run.step.chunk, i), accessesOf(run, i)));
  add(run.endInstruction, points.finish());
  return joins;
}

// Among the instructions [begin, end) of a lane.
bool Joiner::hasExchange(const StepRecord &run, int64_t lane, int64_t begin, int64_t end) const {
  const std::vector<InstructionRecord> &records = record_.chunks[run.step.chunk].instructions;
  for (int64_t i = begin; i < end; ++i)
    if (laneOf_(run.step.chunk, i) == lane && std::holds_alternative<plan::ExchangeRows>(records[i].instruction->body))
      return true;
  return false;
}

// A join is one of all works before it in its lane.
std::vector<int64_t> Joiner::turnsOf(const StepRecord &run, std::span<const Join> joins) const {
  std::vector<int64_t> turns = {run.firstInstruction};
  std::map<int64_t, int64_t> joined; // by lane: behind the last work that has been waited for
  for (const Join &join : joins) {
    const int64_t lane = laneOf_(run.step.chunk, join.collective);
    int64_t &begin = joined.try_emplace(lane, run.firstInstruction).first->second;
    const bool waits = hasExchange(run, lane, begin, join.collective + 1);
    begin = join.collective + 1;
    if (waits && join.before < run.endInstruction && turns.back() != join.before)
      turns.push_back(join.before);
  }
  return turns;
}

} // namespace

StepJoins joinsOf(const plan::Plan &plan, const RankRecord &record, const LaneOf &laneOf, bool keepsGroups) {
  const Joiner joiner(plan, record, laneOf, keepsGroups);
  using Run = std::tuple<int64_t, int64_t, int64_t, std::vector<int64_t>>; // chunk, instructions, slots
  std::map<Run, size_t> known;
  StepJoins joins;
  joins.ofStep.resize(record.schedule.size());
  for (size_t index = 0; index < record.schedule.size(); ++index) {
    const StepRecord &step = record.schedule[index];
    if (step.step.kind != plan::ExpandedStep::Kind::run)
      continue;
    const auto [run, isNew] = known.try_emplace(
        {step.step.chunk, step.firstInstruction, step.endInstruction, step.step.slots}, joins.runs.size());
    if (isNew) {
      std::vector<Join> found = joiner.joinsOf(step);
      std::vector<int64_t> turns = joiner.turnsOf(step, found);
      joins.runs.push_back({std::move(found), std::move(turns), static_cast<int64_t>(index)});
    }
    joins.ofStep[index] = run->second;
    ++joins.runs[run->second].count;
  }
  return joins;
}

} // namespace mgc
