#include "runtime/exec/device/DeviceProgram.h"

#include "plan/Operands.h"
#include "plan/targets/CudaGemm.h"
#include "runtime/comm/device/DeviceTypes.h"

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
  mgc_gemm_facts facts;
  std::memset(&facts, 0, sizeof facts);
  facts.m = gemm.m, facts.n = gemm.n, facts.k = gemm.k;
  facts.transpose_a = gemm.transposeA, facts.transpose_b = gemm.transposeB,
  facts.accumulate = gemm.accumulate;
  facts.input = deviceType(gemm.inputType), facts.output = deviceType(gemm.outputType);
  facts.workspace_bytes =
      std::max<int64_t>(gemm.workspaceBytes - (kCudaWorkspaceAlignment - plan::kAlignment), 0);
  facts.epilogue = deviceEpilogue(gemm.epilogue);
  facts.alignment = kMostAlignment;
  const plan::GemmOperands numbers = plan::operandNumbersOf(gemm);
  for (const int64_t number : {int64_t(0), int64_t(1), numbers.bias, numbers.c, numbers.preactivation})
    if (number >= 0)
      facts.alignment = std::min(facts.alignment, alignmentOf(operands[number]));
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

class DeviceProgram::Maker {
public:
  Maker(const plan::Plan &plan, const RankRecord &record, const DeviceKernels &kernels,
        const plugin::PluginDevice &device, const ProductChoices *choices, DeviceProgram &program)
      : plan_(plan), record_(record), kernels_(kernels), device_(device), choices_(choices),
        program_(program) {}
  Status makeAll();

private:
  Result<DeviceInstruction> make(const ChunkRecord &chunk, const InstructionRecord &instruction);
  Status make(const GemmRecord &gemm, const OperandRecord *operands, DeviceInstruction &to);
  Status make(const AttentionRecord &attention, DeviceInstruction &to);
  void makeJoins();
  void count(const StepRecord &run, std::span<const Join> joins);

  const plan::Plan &plan_;
  const RankRecord &record_;
  const DeviceKernels &kernels_;
  const plugin::PluginDevice &device_;
  const ProductChoices *choices_;
  DeviceProgram &program_;
  std::map<std::string, const plugin::GemmCall *> gemms_;
  std::map<std::string, const plugin::AttentionCall *> attentions_;
};

Status DeviceProgram::Maker::makeAll() {
  for (const ChunkRecord &chunk : record_.chunks) {
    std::vector<DeviceInstruction> &made = program_.chunks_.emplace_back();
    int64_t collectives = 0;
    for (const InstructionRecord &instruction : chunk.instructions) {
      Result<DeviceInstruction> one = make(chunk, instruction);
      if (!one.isOk())
        return Status(one.status())
            .at(fmt::format("chunk {}: {}", chunk.name, instruction.instruction->label));
      made.push_back(*one);
      if (std::holds_alternative<CollectiveRecord>(instruction.body))
        made.back().collective = collectives++;
    }
  }
  makeJoins();
  return Status::ok();
}

Result<DeviceInstruction> DeviceProgram::Maker::make(const ChunkRecord &chunk,
                                                     const InstructionRecord &instruction) {
  DeviceInstruction made;
  if (const auto *row = std::get_if<plan::RowKernel>(&instruction.instruction->body)) {
    made.kernel = &kernels_.kernel(row->symbol);
    made.scalars = kernels_.needsOf(row->symbol)->scalars;
  } else if (const auto *gemm = std::get_if<GemmRecord>(&instruction.body))
    MGC_TRY(make(*gemm, chunk.operands.data() + instruction.firstOperand, made));
  else if (const auto *attention = std::get_if<AttentionRecord>(&instruction.body))
    MGC_TRY(make(*attention, made));
  else if (std::holds_alternative<CollectiveRecord>(instruction.body))
    made.side = isPerMicrobatch(chunk.chunk->task) ? StreamKind::layers : StreamKind::step;
  return made;
}

Status DeviceProgram::Maker::make(const GemmRecord &record, const OperandRecord *operands,
                                  DeviceInstruction &to) {
  mgc_gemm_facts facts = factsOf(record, operands);
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

Status DeviceProgram::Maker::make(const AttentionRecord &record, DeviceInstruction &to) {
  const plan::Attention &attention = *record.attention;
  mgc_attention_facts facts;
  std::memset(&facts, 0, sizeof facts);
  facts.backward = attention.backward, facts.documents = attention.documents;
  facts.type = deviceType(attention.type);
  facts.zigzag = attention.zigzag, facts.part = record.part;
  facts.s = attention.s, facts.t = attention.t, facts.b = attention.b;
  facts.g = attention.g, facts.r = attention.r, facts.d = attention.d;
  facts.scale = attention.scale, facts.window = attention.window;
  if (attention.dropout > 0) { // what only it looks at makes no calls different
    facts.dropout = attention.dropout, facts.site = attention.site;
    facts.seed = static_cast<int64_t>(record.scalars.seed), facts.instance = record.scalars.instance;
    facts.head_offset = record.scalars.headOffset, facts.group_stride = attention.groupStride;
  }
  facts.q_stride = attention.qStride, facts.k_stride = attention.kStride, facts.v_stride = attention.vStride;
  facts.dq_stride = attention.dqStride, facts.dk_stride = attention.dkStride,
  facts.dv_stride = attention.dvStride;
  facts.workspace_bytes = attention.workspaceBytes;
  const plugin::AttentionCall *&known = attentions_[keyOf(facts)];
  if (!known) {
    MGC_ASSIGN(call, device_.makeAttention(facts));
    known = &program_.attentions_.emplace_back(std::move(call));
  }
  to.attention = known;
  return Status::ok();
}

void DeviceProgram::Maker::makeJoins() {
  program_.joins_ = joinsOf(plan_, record_, [&](int64_t chunk, int64_t instruction) {
    return static_cast<int64_t>(program_.at(chunk, instruction).side);
  });
  for (size_t i = 0; i < record_.schedule.size(); ++i)
    count(record_.schedule[i], program_.joins_[i]);
}

// A join is one of all collectives before it on its stream.
void DeviceProgram::Maker::count(const StepRecord &run, std::span<const Join> joins) {
  const auto isProduct = [](const DeviceInstruction &made) { return made.gemm || made.attention; };
  for (int64_t i = run.firstInstruction; i < run.endInstruction; ++i) {
    const std::vector<DeviceInstruction> &made = program_.chunks_[run.step.chunk];
    if (made[i].collective < 0)
      continue;
    const auto join = std::ranges::find_if(joins, [&](const Join &one) {
      return one.collective >= i && made[one.collective].side == made[i].side;
    });
    ++program_.count_.all;
    program_.count_.besideProducts += std::any_of(made.begin() + i, made.begin() + join->before, isProduct);
  }
}

int64_t DeviceProgram::mostCollectives() const {
  int64_t most = 0;
  for (const std::vector<DeviceInstruction> &chunk : chunks_)
    most = std::max<int64_t>(most, std::ranges::count_if(chunk, [](const DeviceInstruction &made) {
                               return made.collective >= 0;
                             }));
  return most;
}

Result<DeviceProgram> DeviceProgram::make(const plan::Plan &plan, const RankRecord &record,
                                          const DeviceKernels &kernels, const plugin::PluginDevice &device,
                                          const ProductChoices *choices) {
  DeviceProgram program;
  MGC_TRY(Maker(plan, record, kernels, device, choices, program).makeAll());
  return program;
}

} // namespace mgc
