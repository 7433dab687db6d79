// See VerifyKernels.h.
#include "runtime/exec/VerifyKernels.h"

namespace mgc {

namespace {

class KernelChecks {
public:
  KernelChecks(const plan::Instruction &instruction, const KernelNeeds &needs)
      : instruction_(instruction), needs_(needs) {}

  Status verify(const plan::RowKernel &kernel) const {
    if (kernel.range != needs_.range)
      return mismatch("range", kernel.range, needs_.range);
    if (const auto scalars = static_cast<int64_t>(kernel.scalars.size()); scalars < needs_.scalars)
      return mismatch("scalars", scalars, needs_.scalars);
    const auto operands = static_cast<int64_t>(instruction_.operands.size()),
               compiled = static_cast<int64_t>(needs_.operands.size());
    if (operands != compiled)
      return mismatch("operands", operands, compiled);
    for (int64_t i = 0; i < operands; ++i)
      if (!(kernel.uses[i] == needs_.operands[i]))
        return errorf("operand {}: the plan says {}, the kernel was compiled for {}; compile the plan again", i,
                      describe(kernel.uses[i]), describe(needs_.operands[i]));
    return Status::ok();
  }

private:
  static Status mismatch(const char *what, int64_t found, int64_t compiled) {
    return errorf("{} = {}, but the kernel was compiled for {}; compile the plan again", what, found, compiled);
  }

  static std::string describe(const plan::RowKernel::Operand &operand) {
    const auto &[use, bytes, rowBytes, rowStride, counted] = operand;
    return fmt::format("{} bytes in rows of {}, {} apart, {}{}", bytes, rowBytes, rowStride, plan::nameOf(use),
                       counted ? ", of counted rows" : "");
  }

  const plan::Instruction &instruction_;
  const KernelNeeds &needs_;
};

Status verifyProgram(const plan::Program &program, const KernelFacts &library) {
  for (const plan::Instruction &instruction : program.instructions)
    if (const auto *kernel = std::get_if<plan::RowKernel>(&instruction.body))
      if (const std::optional<KernelNeeds> needs = library.needsOf(kernel->symbol))
        MGC_TRY(KernelChecks(instruction, *needs)
                    .verify(*kernel)
                    .at(fmt::format("kernel '{}'", kernel->symbol))
                    .at(instruction.label));
  return Status::ok();
}

} // namespace

Status verifyKernels(const plan::Plan &plan, const KernelFacts &library) {
  for (const plan::Program &program : plan.programs)
    MGC_TRY(verifyProgram(program, library).at(fmt::format("program '{}'", program.name)));
  return Status::ok();
}

} // namespace mgc
