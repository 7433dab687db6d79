#include "runtime/exec/RankProgram.h"

#include "runtime/exec/SharedCounts.h"

#include "plan/PairTurns.h"

#include <algorithm>
#include <set>

namespace mgc {

bool waitsForDevice(const plan::Plan &plan) {
  return std::ranges::any_of(plan.programs, [](const plan::Program &program) {
    return std::ranges::any_of(program.instructions, [](const plan::Instruction &instruction) {
      return std::visit([]<typename Kind>(const Kind &) { return kWaitsForDevice<Kind>; }, instruction.body);
    });
  });
}

std::vector<mgc_gemm_facts> productsOf(const RankRecord &record) {
  std::vector<mgc_gemm_facts> products;
  std::set<std::string> listed;
  for (const ChunkRecord &chunk : record.chunks)
    for (const InstructionRecord &instruction : chunk.instructions)
      if (const auto *gemm = std::get_if<plan::Gemm>(&instruction.instruction->body)) {
        const mgc_gemm_facts facts = factsOf(*gemm, chunk.operandsOf(instruction));
        if (listed.insert(keyOf(facts)).second)
          products.push_back(facts);
      }
  return products;
}

class RankProgram::Maker {
public:
  Maker(const plan::Plan &plan, const RankRecord &record, const RowKernels &kernels, const plugin::PluginDevice &device,
        const ProductChoices *choices, Concurrency concurrency, RankProgram &program)
      : plan_(plan), record_(record), kernels_(kernels), device_(device), choices_(choices), concurrency_(concurrency),
        program_(program) {}
  Status makeAll();

private:
  Result<PreparedInstruction> make(const ChunkRecord &chunk, const InstructionRecord &instruction);
  void assignStreams();
  LaneOf lanes() const;
  bool overlapsProduct(const StepRecord &run, std::span<const plan::Join> joins, int64_t instruction) const;
  void keepOnRunStream(const StepJoins &joins);
  void count(const StepJoins::Runs &runs);
  void addTurns();
  std::vector<PairTurn> turnsOf(const StepJoins::Runs &first, const StepJoins::Runs &second) const;

  const plan::Plan &plan_;
  const RankRecord &record_;
  const RowKernels &kernels_;
  const plugin::PluginDevice &device_;
  const ProductChoices *choices_;
  const Concurrency concurrency_;
  RankProgram &program_;
};

Status RankProgram::Maker::makeAll() {
  for (const ChunkRecord &chunk : record_.chunks) {
    std::vector<PreparedInstruction> &made = program_.chunks_.emplace_back();
    for (const InstructionRecord &instruction : chunk.instructions) {
      MGC_ASSIGN(one,
                 make(chunk, instruction).at(fmt::format("chunk {}: {}", chunk.name, instruction.instruction->label)));
      made.push_back(one);
    }
    const std::vector<int64_t> firstReaders = firstReadersOfCounts(plan_.mesh, chunk);
    for (size_t i = 0; i < made.size(); ++i)
      made[i].countsOf = firstReaders[i];
  }
  assignStreams();
  return Status::ok();
}

Result<PreparedInstruction> RankProgram::Maker::make(const ChunkRecord &chunk, const InstructionRecord &instruction) {
  PreparedInstruction made;
  const Preparation at = {plan_, kernels_, device_, choices_, *program_.calls_, chunk, instruction};
  MGC_TRY(std::visit([&](const auto &kind) { return prepare(at, kind, made.call); }, instruction.instruction->body));
  return made;
}

LaneOf RankProgram::Maker::lanes() const {
  static_assert(static_cast<int64_t>(StreamKind::compute) == plan::JoinPoints::kMain);
  return
      [this](int64_t chunk, int64_t instruction) { return static_cast<int64_t>(program_.at(chunk, instruction).side); };
}

void RankProgram::Maker::assignStreams() {
  for (size_t i = 0; i < record_.chunks.size() && concurrency_ != Concurrency::none; ++i) {
    const ChunkRecord &chunk = record_.chunks[i];
    const bool isOfLayers = isPerMicrobatch(chunk.chunk->task);
    const std::vector<plan::Call> calls = expandedCalls(*chunk.chunk);
    for (size_t call = 0; call < calls.size(); ++call) {
      const StreamKind side = !isOfLayers                             ? StreamKind::step
                              : isOfUnit(*record_.stage, calls[call]) ? StreamKind::units
                                                                      : StreamKind::layers;
      for (int64_t k = chunk.callBegins[call]; k < chunk.callBegins[call + 1]; ++k)
        if (const auto *copy = std::get_if<plan::HostCopy>(&chunk.instructions[k].instruction->body))
          program_.chunks_[i][k].side =
              copy->direction == plan::HostCopy::Direction::in ? StreamKind::copiesIn : StreamKind::copiesOut;
        else if (chunk.instructions[k].group >= 0 && (isOfLayers || concurrency_ == Concurrency::all))
          program_.chunks_[i][k].side = side;
    }
  }
  const bool keepsGroups = concurrency_ == Concurrency::products;
  if (keepsGroups)
    keepOnRunStream(joinsOf(plan_, record_, lanes(), keepsGroups));
  program_.joins_ = joinsOf(plan_, record_, lanes(), keepsGroups);
  for (std::vector<PreparedInstruction> &chunk : program_.chunks_)
    for (int64_t next = 0; PreparedInstruction &made : chunk)
      made.concurrent = made.side == StreamKind::compute ? -1 : next++;
  for (const StepJoins::Runs &runs : program_.joins_.runs)
    count(runs);
  addTurns();
}

void RankProgram::Maker::addTurns() {
  const StepJoins &joins = program_.joins_;
  for (size_t index = 1; index < record_.schedule.size(); ++index) {
    if (!record_.schedule[index].step.paired)
      continue;
    const auto [turns, isNew] = program_.turns_.try_emplace({joins.ofStep[index - 1], joins.ofStep[index]});
    if (isNew)
      turns->second = turnsOf(joins.runs[joins.ofStep[index - 1]], joins.runs[joins.ofStep[index]]);
  }
}

std::vector<PairTurn> RankProgram::Maker::turnsOf(const StepJoins::Runs &first, const StepJoins::Runs &second) const {
  std::vector<PairTurn> turns;
  std::array<size_t, 2> next = {};
  for (const bool isSecond : plan::pairTurns(std::ssize(first.turns), std::ssize(second.turns))) {
    const StepJoins::Runs &runs = isSecond ? second : first;
    const size_t turn = next[isSecond]++;
    const bool isLast = turn + 1 == runs.turns.size();
    turns.push_back(
        {isSecond, runs.turns[turn], isLast ? record_.schedule[runs.first].endInstruction : runs.turns[turn + 1]});
  }
  return turns;
}

// Collectives that overlap no matrix product in any run go back into their runs' stream.
void RankProgram::Maker::keepOnRunStream(const StepJoins &joins) {
  std::vector<std::vector<bool>> stays;
  for (const std::vector<PreparedInstruction> &chunk : program_.chunks_)
    stays.emplace_back(chunk.size());
  for (const StepJoins::Runs &runs : joins.runs) {
    const StepRecord &run = record_.schedule[runs.first];
    for (int64_t k = run.firstInstruction; k < run.endInstruction; ++k)
      if (overlapsProduct(run, runs.joins, k))
        stays[run.step.chunk][k] = true;
  }
  for (size_t i = 0; i < stays.size(); ++i)
    for (size_t k = 0; k < stays[i].size(); ++k)
      if (!stays[i][k])
        program_.chunks_[i][k].side = StreamKind::compute;
}

// A join is one of all collectives before it on its stream.
bool RankProgram::Maker::overlapsProduct(const StepRecord &run, std::span<const plan::Join> joins,
                                         int64_t instruction) const {
  const std::vector<PreparedInstruction> &made = program_.chunks_[run.step.chunk];
  if (made[instruction].side == StreamKind::compute)
    return false;
  const auto join = std::ranges::find_if(joins, [&](const plan::Join &one) {
    return one.work >= instruction && made[one.work].side == made[instruction].side;
  });
  const std::vector<InstructionRecord> &records = record_.chunks[run.step.chunk].instructions;
  return std::any_of(records.begin() + instruction, records.begin() + join->before,
                     [&](const InstructionRecord &one) { return hidesCollectives(kindOf(one.instruction->body)); });
}

void RankProgram::Maker::count(const StepJoins::Runs &runs) {
  const StepRecord &run = record_.schedule[runs.first];
  const ChunkRecord &chunk = record_.chunks[run.step.chunk];
  for (int64_t i = run.firstInstruction; i < run.endInstruction; ++i)
    if (chunk.instructions[i].group >= 0) {
      program_.count_.all += runs.count;
      program_.count_.overlapped += overlapsProduct(run, runs.joins, i) ? runs.count : 0;
    }
}

// The most of a chunk's instructions for which isCounted holds.
template <typename Prepared> static int64_t mostOf(const std::vector<Prepared> &chunks, auto isCounted) {
  int64_t most = 0;
  for (const Prepared &chunk : chunks)
    most = std::max<int64_t>(most, std::ranges::count_if(chunk, isCounted));
  return most;
}

int64_t RankProgram::mostConcurrent() const {
  return mostOf(chunks_, [](const PreparedInstruction &made) { return made.concurrent >= 0; });
}

int64_t RankProgram::mostConcurrent(StreamKind kind) const {
  return mostOf(chunks_, [&](const PreparedInstruction &made) { return made.concurrent >= 0 && made.side == kind; });
}

Result<RankProgram> RankProgram::make(const plan::Plan &plan, const RankRecord &record, const RowKernels &kernels,
                                      const plugin::PluginDevice &device, const ProductChoices *choices,
                                      Concurrency concurrency) {
  RankProgram program;
  MGC_TRY(Maker(plan, record, kernels, device, choices, concurrency, program).makeAll());
  return program;
}

} // namespace mgc
