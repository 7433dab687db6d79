// verifyKernels: row kernels are called as they were compiled, or the plan is refused.
#include "runtime/exec/VerifyKernels.h"

#include <functional>
#include <gtest/gtest.h>

namespace mgc {
namespace {

// Knows one kernel, `half`: 8 rows, a scalar, 64 bytes read and 32 written.
class OneKernel final : public KernelLibrary {
public:
  Result<RowFunction> find(const std::string &) const override { return errorf("not called"); }
  std::optional<KernelNeeds> needsOf(const std::string &symbol) const override {
    static constexpr int64_t kBytes[] = {64, 32};
    return symbol == "half" ? std::optional<KernelNeeds>({8, 1, kBytes}) : std::nullopt;
  }
};

plan::Plan planOf(const std::function<void(plan::Program &, plan::RowKernel &)> &edit) {
  plan::Program program{"layer.fwd", {"in", "out"}, {128, 64}, {}};
  plan::RowKernel kernel{"half", 8, {{}}};
  program.instructions.push_back({kernel, {{0, 64}, {1, 32}}, "layer.fwd/half"});
  edit(program, kernel);
  program.instructions[0].body = kernel;
  plan::Plan plan;
  plan.programs.push_back(program);
  return plan;
}

std::string messageOf(const std::function<void(plan::Program &, plan::RowKernel &)> &edit) {
  const Status status = verifyKernels(planOf(edit), OneKernel());
  return status.isOk() ? "" : status.message();
}

TEST(VerifyKernels, whatItWasCompiledForIsRight) {
  EXPECT_EQ(messageOf([](plan::Program &, plan::RowKernel &) {}), "");
  EXPECT_EQ(messageOf([](plan::Program &, plan::RowKernel &kernel) { kernel.scalars.push_back({}); }), "");
}

TEST(VerifyKernels, whatIsNotKnownIsNotChecked) {
  EXPECT_EQ(
      messageOf([](plan::Program &, plan::RowKernel &kernel) { kernel.symbol = "other", kernel.range = 9; }),
      "");
}

TEST(VerifyKernels, anythingElseIsRefused) {
  const std::string place = "program 'layer.fwd': layer.fwd/half: kernel 'half': ";
  EXPECT_EQ(messageOf([](plan::Program &, plan::RowKernel &kernel) { kernel.range = 9; }),
            place + "range = 9, but the kernel was compiled for 8; compile the plan again");
  EXPECT_EQ(messageOf([](plan::Program &, plan::RowKernel &kernel) { kernel.range = 7; }),
            place + "range = 7, but the kernel was compiled for 8; compile the plan again");
  EXPECT_EQ(messageOf([](plan::Program &, plan::RowKernel &kernel) { kernel.scalars.clear(); }),
            place + "scalars = 0, but the kernel was compiled for 1; compile the plan again");
  EXPECT_EQ(messageOf([](plan::Program &program, plan::RowKernel &) {
              program.instructions[0].operands.pop_back();
            }),
            place + "operands = 1, but the kernel was compiled for 2; compile the plan again");
  EXPECT_EQ(
      messageOf(
          [](plan::Program &program, plan::RowKernel &) { program.instructions[0].operands[1].offset = 36; }),
      place +
          "operand 1: the kernel uses 32 bytes, from 36 on not inside segment 'out' of 64 bytes; compile the "
          "plan again");
  EXPECT_EQ(
      messageOf([](plan::Program &program, plan::RowKernel &) { program.segmentBytes[0] = 124; }),
      place +
          "operand 0: the kernel uses 64 bytes, from 64 on not inside segment 'in' of 124 bytes; compile the "
          "plan again");
}

} // namespace
} // namespace mgc
