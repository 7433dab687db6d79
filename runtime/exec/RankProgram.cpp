#include "runtime/exec/RankProgram.h"

#include "plan/Operands.h"
#include "plan/targets/CudaGemm.h"
#include "runtime/device/CallFacts.h"
#include "runtime/exec/JoinPoints.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace mgc {

namespace {

constexpr int64_t kMostAlignment = 256; // of a device's allocation, and more than any library asks for

// All bytes count: equal calls are made once.
template <typename Facts> std::string keyOf(const Facts &facts) {
  return std::string(reinterpret_cast<const char *>(&facts), sizeof facts);
}

// A power of two that divides the operand's address in every run: slots begin on plan::kAlignment.
int64_t alignmentOf(const OperandRecord &operand) {
  const int64_t base = operand.slot == 0 ? kMostAlignment : plan::kAlignment;
  return operand.offset == 0 ? base : std::min(base, operand.offset & -operand.offset);
}

mgc_gemm_facts factsOf(const GemmRecord &record, const OperandRecord *operands) {
  const plan::Gemm &gemm = *record.gemm;
  mgc_gemm_facts facts = mgc::factsOf(gemm);
  facts.workspace_bytes =
      std::max<int64_t>(gemm.workspaceBytes - (kCudaWorkspaceAlignment - plan::kAlignment), 0);
  facts.alignment = kMostAlignment;
  const plan::GemmOperands numbers = plan::operandNumbersOf(gemm);
  for (const int64_t number : {int64_t(0), int64_t(1), numbers.bias, numbers.c, numbers.preactivation})
    if (number >= 0)
      facts.alignment = std::min(facts.alignment, alignmentOf(operands[number]));
  return facts;
}

mgc_attention_facts factsOf(const AttentionRecord &record) {
  mgc_attention_facts facts = mgc::factsOf(*record.attention);
  facts.part = record.part;
  if (record.attention->dropout > 0) { // what only it looks at makes no calls different
    facts.seed = static_cast<int64_t>(record.scalars.seed), facts.instance = record.scalars.instance;
    facts.head_offset = record.scalars.headOffset;
  }
  return facts;
}

} // namespace

std::vector<mgc_gemm_facts> productsOf(const RankRecord &record) {
  std::vector<mgc_gemm_facts> products;
  std::set<std::string> listed;
  for (const ChunkRecord &chunk : record.chunks)
    for (const InstructionRecord &instruction : chunk.instructions)
      if (const auto *gemm = std::get_if<GemmRecord>(&instruction.body)) {
        const mgc_gemm_facts facts = factsOf(*gemm, chunk.operands.data() + instruction.firstOperand);
        if (listed.insert(keyOf(facts)).second)
          products.push_back(facts);
      }
  return products;
}

class RankProgram::Maker {
public:
  Maker(const plan::Plan &plan, const RankRecord &record, const RowKernels &kernels,
        const plugin::PluginDevice &device, const ProductChoices *choices, Concurrency concurrency,
        RankProgram &program)
      : plan_(plan), record_(record), kernels_(kernels), device_(device), choices_(choices),
        concurrency_(concurrency), program_(program) {}
  Status makeAll();

private:
  Result<PreparedInstruction> make(const ChunkRecord &chunk, const InstructionRecord &instruction);
  Status make(const GemmRecord &gemm, const OperandRecord *operands, PreparedInstruction &to);
  Status make(const AttentionRecord &attention, PreparedInstruction &to);
  void assignStreams();
  LaneOf lanes() const;
  bool hasProductBeside(const StepRecord &run, std::span<const Join> joins, int64_t instruction) const;
  void keepOnRunStream(const StepJoins &joins);
  void count(const StepJoins::Runs &runs);

  const plan::Plan &plan_;
  const RankRecord &record_;
  const RowKernels &kernels_;
  const plugin::PluginDevice &device_;
  const ProductChoices *choices_;
  const Concurrency concurrency_;
  RankProgram &program_;
  std::map<std::string, const plugin::GemmCall *> gemms_;
  std::map<std::string, const plugin::AttentionCall *> attentions_;
};

Status RankProgram::Maker::makeAll() {
  for (const ChunkRecord &chunk : record_.chunks) {
    std::vector<PreparedInstruction> &made = program_.chunks_.emplace_back();
    for (const InstructionRecord &instruction : chunk.instructions) {
      Result<PreparedInstruction> one = make(chunk, instruction);
      if (!one.isOk())
        return Status(one.status())
            .at(fmt::format("chunk {}: {}", chunk.name, instruction.instruction->label));
      made.push_back(*one);
    }
  }
  assignStreams();
  return Status::ok();
}

Result<PreparedInstruction> RankProgram::Maker::make(const ChunkRecord &chunk,
                                                     const InstructionRecord &instruction) {
  PreparedInstruction made;
  if (const auto *row = std::get_if<plan::RowKernel>(&instruction.instruction->body)) {
    made.kernel = kernels_.kernel(*row);
    const std::optional<KernelNeeds> needs = kernels_.needsOf(row->symbol);
    made.scalars = needs ? needs->scalars : std::ssize(row->scalars);
  } else if (const auto *gemm = std::get_if<GemmRecord>(&instruction.body))
    MGC_TRY(make(*gemm, chunk.operands.data() + instruction.firstOperand, made));
  else if (const auto *attention = std::get_if<AttentionRecord>(&instruction.body))
    MGC_TRY(make(*attention, made));
  return made;
}

Status RankProgram::Maker::make(const GemmRecord &record, const OperandRecord *operands,
                                PreparedInstruction &to) {
  mgc_gemm_facts facts = factsOf(record, operands);
  if (plan_.target == plan::Target::cpu)
    facts.algorithm = static_cast<int64_t>(record.gemm->path);
  if (choices_)
    facts.algorithm = choices_->algorithmOf(facts);
  const plugin::GemmCall *&known = gemms_[keyOf(facts)];
  if (!known) {
    Result<plugin::GemmCall> call = device_.makeGemm(facts);
    if (!call.isOk() && facts.epilogue != MGC_NO_EPILOGUE)
      return errorf("{}\n  mgc compile --no-fusion makes plans whose products have no epilogue",
                    call.status().message());
    MGC_TRY(call.status());
    known = &program_.gemms_.emplace_back(call.take());
  }
  to.gemm = known;
  return Status::ok();
}

Status RankProgram::Maker::make(const AttentionRecord &record, PreparedInstruction &to) {
  const mgc_attention_facts facts = factsOf(record);
  const plugin::AttentionCall *&known = attentions_[keyOf(facts)];
  if (!known) {
    MGC_ASSIGN(call, device_.makeAttention(facts));
    known = &program_.attentions_.emplace_back(std::move(call));
  }
  to.attention = known;
  return Status::ok();
}

LaneOf RankProgram::Maker::lanes() const {
  static_assert(static_cast<int64_t>(StreamKind::compute) == JoinPoints::kMain);
  return [this](int64_t chunk, int64_t instruction) {
    return static_cast<int64_t>(program_.at(chunk, instruction).side);
  };
}

void RankProgram::Maker::assignStreams() {
  for (size_t i = 0; i < record_.chunks.size() && concurrency_ != Concurrency::none; ++i) {
    const ChunkRecord &chunk = record_.chunks[i];
    const bool isOfLayers = isPerMicrobatch(chunk.chunk->task);
    for (size_t k = 0; k < chunk.instructions.size(); ++k)
      if (std::holds_alternative<CollectiveRecord>(chunk.instructions[k].body) &&
          (isOfLayers || concurrency_ == Concurrency::all))
        program_.chunks_[i][k].side = isOfLayers ? StreamKind::layers : StreamKind::step;
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
}

// Collectives that have no product beside them in any run go back into their runs' stream.
void RankProgram::Maker::keepOnRunStream(const StepJoins &joins) {
  std::vector<std::vector<bool>> stays;
  for (const std::vector<PreparedInstruction> &chunk : program_.chunks_)
    stays.emplace_back(chunk.size());
  for (const StepJoins::Runs &runs : joins.runs) {
    const StepRecord &run = record_.schedule[runs.first];
    for (int64_t k = run.firstInstruction; k < run.endInstruction; ++k)
      if (hasProductBeside(run, runs.joins, k))
        stays[run.step.chunk][k] = true;
  }
  for (size_t i = 0; i < stays.size(); ++i)
    for (size_t k = 0; k < stays[i].size(); ++k)
      if (!stays[i][k])
        program_.chunks_[i][k].side = StreamKind::compute;
}

// A join is one of all collectives before it on its stream.
bool RankProgram::Maker::hasProductBeside(const StepRecord &run, std::span<const Join> joins,
                                          int64_t instruction) const {
  const std::vector<PreparedInstruction> &made = program_.chunks_[run.step.chunk];
  if (made[instruction].side == StreamKind::compute)
    return false;
  const auto join = std::ranges::find_if(joins, [&](const Join &one) {
    return one.collective >= instruction && made[one.collective].side == made[instruction].side;
  });
  return std::any_of(made.begin() + instruction, made.begin() + join->before,
                     [](const PreparedInstruction &one) { return one.gemm || one.attention; });
}

void RankProgram::Maker::count(const StepJoins::Runs &runs) {
  const StepRecord &run = record_.schedule[runs.first];
  const ChunkRecord &chunk = record_.chunks[run.step.chunk];
  for (int64_t i = run.firstInstruction; i < run.endInstruction; ++i)
    if (std::holds_alternative<CollectiveRecord>(chunk.instructions[i].body)) {
      program_.count_.all += runs.count;
      program_.count_.besideProducts += hasProductBeside(run, runs.joins, i) ? runs.count : 0;
    }
}

int64_t RankProgram::mostConcurrent() const {
  int64_t most = 0;
  for (const std::vector<PreparedInstruction> &chunk : chunks_)
    most = std::max<int64_t>(most, std::ranges::count_if(chunk, [](const PreparedInstruction &made) {
                               return made.concurrent >= 0;
                             }));
  return most;
}

Result<RankProgram> RankProgram::make(const plan::Plan &plan, const RankRecord &record,
                                      const RowKernels &kernels, const plugin::PluginDevice &device,
                                      const ProductChoices *choices, Concurrency concurrency) {
  RankProgram program;
  MGC_TRY(Maker(plan, record, kernels, device, choices, concurrency, program).makeAll());
  return program;
}

} // namespace mgc
