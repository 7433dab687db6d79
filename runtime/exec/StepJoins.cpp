// See StepJoins.h.
#include "runtime/exec/StepJoins.h"

#include <map>
#include <tuple>

namespace mgc {

namespace {

class Joiner {
public:
  Joiner(const plan::Plan &plan, const RankRecord &record, const LaneOf &laneOf, bool keepsGroups)
      : plan_(plan), record_(record), laneOf_(laneOf), keepsGroups_(keepsGroups) {
    for (const ChunkRecord &chunk : record.chunks)
      calls_.push_back(expandedCalls(*chunk.chunk));
  }
  StepJoins::Runs runsLike(const StepRecord &run);

private:
  bool hasLanes(const StepRecord &run) const;
  std::vector<plan::RunWork> worksOf(const StepRecord &run);
  const plan::ProgramWorks &worksOf(int64_t program);

  const plan::Plan &plan_;
  const RankRecord &record_;
  const LaneOf &laneOf_;
  const bool keepsGroups_;
  std::vector<std::vector<plan::Call>> calls_;     // by chunk
  std::map<int64_t, plan::ProgramWorks> programs_; // by number
};

StepJoins::Runs Joiner::runsLike(const StepRecord &run) {
  StepJoins::Runs runs{{}, {run.firstInstruction}};
  if (!hasLanes(run))
    return runs;
  const std::vector<plan::RunWork> works = worksOf(run);
  runs.joins = plan::joinsOf(works);
  runs.turns = plan::turnsOf(works, runs.joins);
  for (auto &[before, work] : runs.joins)
    before += run.firstInstruction, work += run.firstInstruction;
  for (int64_t &turn : runs.turns)
    turn += run.firstInstruction;
  return runs;
}

bool Joiner::hasLanes(const StepRecord &run) const {
  for (int64_t i = run.firstInstruction; i < run.endInstruction; ++i)
    if (laneOf_(run.step.chunk, i) != plan::JoinPoints::kMain)
      return true;
  return false;
}

std::vector<plan::RunWork> Joiner::worksOf(const StepRecord &run) {
  const std::vector<plan::Call> &calls = calls_[run.step.chunk];
  const std::vector<InstructionRecord> &records = record_.chunks[run.step.chunk].instructions;
  std::vector<plan::RunWork> works;
  int64_t instruction = run.firstInstruction;
  for (int64_t i = run.step.firstCall; i < run.step.endCall(std::ssize(calls)); ++i) {
    const std::vector<int64_t> bases = basesOf(calls[i], 0, run.step.slots);
    const plan::ProgramWorks &program = worksOf(calls[i].program);
    for (size_t work = 0; work < program.size(); ++work, ++instruction) {
      works.push_back({&program.instruction(work), laneOf_(run.step.chunk, instruction), program.touched(work, bases)});
      if (const GroupId group = records[instruction].group; group >= 0 && keepsGroups_)
        works.back().touched.push_back(plan::orderOfGroup(group));
    }
  }
  return works;
}

const plan::ProgramWorks &Joiner::worksOf(int64_t program) {
  return programs_.try_emplace(program, plan_.mesh, plan_.programs[program]).first->second;
}

} // namespace

StepJoins joinsOf(const plan::Plan &plan, const RankRecord &record, const LaneOf &laneOf, bool keepsGroups) {
  Joiner joiner(plan, record, laneOf, keepsGroups);
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
      joins.runs.push_back(joiner.runsLike(step));
      joins.runs.back().first = static_cast<int64_t>(index);
    }
    joins.ofStep[index] = run->second;
    ++joins.runs[run->second].count;
  }
  return joins;
}

} // namespace mgc
