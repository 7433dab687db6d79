// See VerifyKernels.h.
#include "runtime/exec/VerifyKernels.h"

#include "runtime/base/Checked.h"

namespace mgc {

namespace {

class KernelChecks {
public:
  KernelChecks(const plan::Program &program, const plan::Instruction &instruction, const KernelNeeds &needs)
      : program_(program), instruction_(instruction), needs_(needs) {}

  Status verify(const plan::RowKernel &kernel) const {
    if (kernel.range != needs_.range)
      return mismatch("range", kernel.range, needs_.range);
    if (const auto scalars = static_cast<int64_t>(kernel.scalars.size()); scalars < needs_.scalars)
      return mismatch("scalars", scalars, needs_.scalars);
    const auto operands = static_cast<int64_t>(instruction_.operands.size()),
               compiled = static_cast<int64_t>(needs_.operandBytes.size());
    if (operands != compiled)
      return mismatch("operands", operands, compiled);
    for (int64_t i = 0; i < operands; ++i)
      MGC_TRY(verifyOperand(i));
    return Status::ok();
  }

private:
  static Status mismatch(const char *what, int64_t found, int64_t compiled) {
    return errorf("{} = {}, but the kernel was compiled for {}; compile the plan again", what, found,
                  compiled);
  }

  Status verifyOperand(int64_t i) const {
    const auto &[segment, offset] = instruction_.operands[i];
    const int64_t limit = program_.segmentBytes[segment];
    return fitsInside(offset, needs_.operandBytes[i], limit)
               ? Status::ok()
               : errorf("operand {}: the kernel uses {} bytes, from {} on not inside segment '{}' of {} "
                        "bytes; compile the plan again",
                        i, needs_.operandBytes[i], offset, program_.segments[segment], limit);
  }

  const plan::Program &program_;
  const plan::Instruction &instruction_;
  const KernelNeeds &needs_;
};

Status verifyProgram(const plan::Program &program, const KernelFacts &library) {
  for (const plan::Instruction &instruction : program.instructions)
    if (const auto *kernel = std::get_if<plan::RowKernel>(&instruction.body))
      if (const std::optional<KernelNeeds> needs = library.needsOf(kernel->symbol))
        MGC_TRY(KernelChecks(program, instruction, *needs)
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
