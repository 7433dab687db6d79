#include "plan/targets/CudaGemm.h"
#include "runtime/device/CallFacts.h"
#include "runtime/exec/instructions/Execution.h"

#include <algorithm>

namespace mgc {

// Alignment of a device's allocation, and more than any library asks for.
static constexpr int64_t kMostAlignment = 256;

// A power of two that divides the operand's address in every run: slots begin on plan::kAlignment.
static int64_t alignmentOf(const OperandRecord &operand) {
  const int64_t base = operand.slot == 0 ? kMostAlignment : plan::kAlignment;
  return operand.offset == 0 ? base : std::min(base, operand.offset & -operand.offset);
}

mgc_gemm_facts factsOf(const plan::Gemm &gemm, std::span<const OperandRecord> operands) {
  mgc_gemm_facts facts = factsOf(gemm);
  facts.workspace_bytes = std::max<int64_t>(gemm.workspaceBytes - (kCudaWorkspaceAlignment - plan::kAlignment), 0);
  facts.alignment = kMostAlignment;
  const plan::GemmOperands numbers = plan::operandNumbersOf(gemm);
  for (const int64_t number : {int64_t(0), int64_t(1), numbers.bias, numbers.c})
    if (number >= 0)
      facts.alignment = std::min(facts.alignment, alignmentOf(operands[number]));
  return facts;
}

static Result<plugin::GemmCall> makeCall(const plugin::PluginDevice &device, const mgc_gemm_facts &facts) {
  Result<plugin::GemmCall> call = device.makeGemm(facts);
  if (!call.isOk() && facts.epilogue != MGC_NO_EPILOGUE)
    return errorf("{}\n  mgc compile --no-fusion makes plans whose products have no epilogue", call.status().message());
  return call;
}

Status prepare(const Preparation &at, const plan::Gemm &gemm, PreparedCall &to) {
  mgc_gemm_facts facts = factsOf(gemm, at.chunk.operandsOf(at.record));
  if (at.plan.target == plan::Target::cpu)
    facts.algorithm = static_cast<int64_t>(gemm.path);
  if (at.choices)
    facts.algorithm = at.choices->algorithmOf(facts);
  MGC_ASSIGN(call, at.calls.gemms.get(keyOf(facts), [&] { return makeCall(at.device, facts); }));
  to.gemm = call;
  return Status::ok();
}

Status enqueue(const Enqueueing &at, const plan::Gemm &gemm) {
  constexpr mgc_address alignment = kCudaWorkspaceAlignment;
  const plan::GemmOperands numbers = plan::operandNumbersOf(gemm);
  const auto operand = [&](int64_t number) { return number < 0 ? 0 : at.operands[number]; };
  return at.stream.gemm(*at.call.gemm, {.a = at.operands[0],
                                        .b = at.operands[1],
                                        .bias = operand(numbers.bias),
                                        .c = operand(numbers.c),
                                        .workspace = roundUp(operand(numbers.workspace), alignment)});
}

} // namespace mgc
