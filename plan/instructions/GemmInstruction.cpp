#include "plan/instructions/GemmInstruction.h"

#include "plan/instructions/AttributeChecks.h"

namespace mgc::plan {

GemmOperands operandNumbersOf(const Gemm &gemm) {
  GemmOperands numbers;
  int64_t next = 2;
  if (gemm.epilogue != Epilogue::none)
    numbers.bias = next++;
  numbers.c = next++;
  if (gemm.workspaceBytes > 0)
    numbers.workspace = next++;
  return numbers;
}

OperandInfos Gemm::operands(const Mesh &) const {
  OperandInfos infos = {elementsOf(inputType, "A", checkedMultiply(m, k), OperandUse::read),
                        elementsOf(inputType, "B", checkedMultiply(k, n), OperandUse::read)};
  if (epilogue != Epilogue::none)
    infos.push_back(elementsOf(outputType, "bias", n, OperandUse::read));
  infos.push_back(
      elementsOf(outputType, "C", checkedMultiply(m, n), accumulate ? OperandUse::updated : OperandUse::written));
  addWorkspace(infos, workspaceBytes);
  return infos;
}

Work Gemm::work(const Mesh &) const {
  return {.type = inputType, .flops = 2.0 * double(m) * double(n) * double(k), .product = {.m = m, .n = n, .k = k}};
}

static std::string typesOf(const Gemm &gemm) {
  if (gemm.inputType == DType::f32 && gemm.outputType == DType::f32)
    return "";
  return gemm.inputType == gemm.outputType ? fmt::format(" {}", nameOf(gemm.inputType))
                                           : fmt::format(" {}>{}", nameOf(gemm.inputType), nameOf(gemm.outputType));
}

std::string Gemm::sizes() const {
  return fmt::format("{}x{}x{} {}{}{}{}{}", m, n, k, transposeA ? 'T' : 'N', transposeB ? 'T' : 'N',
                     accumulate ? "+" : "", typesOf(*this),
                     epilogue == Epilogue::none ? "" : fmt::format(" {}", nameOf(epilogue)));
}

static void verifyEpilogue(AttributeChecks &checks, const Gemm &gemm) {
  const std::string_view epilogue = nameOf(gemm.epilogue);
  checks.expect(hasEpilogues(checks.plan().target),
                "epilogue {} in a plan for {}, whose products have none; compile for cuda, or without", epilogue,
                nameOf(checks.plan().target));
  checks.expect(!gemm.accumulate, "epilogue {} of a product that is added to C; expected one or the other", epilogue);
}

void Gemm::verify(AttributeChecks &checks) const {
  checks.arePositive({{"m", m}, {"n", n}, {"k", k}});
  checks.isNotNegative("workspaceBytes", double(workspaceBytes));
  checks.isFloatType("inputType", inputType);
  checks.isFloatType("outputType", outputType);
  checks.expect(inputType != DType::f32 || outputType != DType::bf16,
                "outputType bf16 of f32 operands; expected f32, or operands of bf16");
  checks.isNamed("path", path);
  if (checks.need(checks.isNamed("epilogue", epilogue)) && epilogue != Epilogue::none)
    verifyEpilogue(checks, *this);
}

} // namespace mgc::plan
