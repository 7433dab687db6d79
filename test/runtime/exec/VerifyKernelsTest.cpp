// verifyKernels: row kernels are called as they were compiled, or the plan is refused.
#include "runtime/exec/VerifyKernels.h"

#include <functional>
#include <gtest/gtest.h>

namespace mgc {
namespace {

const std::vector<plan::RowKernel::Operand> kUses = {{plan::OperandUse::read, 64}, {plan::OperandUse::written, 32}};

// Knows one kernel, `half`: 8 rows, a scalar, 64 bytes read and 32 written.
class OneKernel final : public KernelFacts {
public:
  std::optional<KernelNeeds> needsOf(const std::string &symbol) const override {
    return symbol == "half" ? std::optional<KernelNeeds>({8, 1, kUses}) : std::nullopt;
  }
};

plan::Plan planOf(const std::function<void(plan::Program &, plan::RowKernel &)> &edit) {
  plan::Program program{.name = "layer.fwd", .segments = {"in", "out"}, .segmentBytes = {128, 64}};
  plan::RowKernel kernel{.symbol = "half", .range = 8, .scalars = {{}}, .uses = kUses};
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
  EXPECT_EQ(messageOf([](auto &, auto &) {}), "");
  EXPECT_EQ(messageOf([](auto &, auto &kernel) { kernel.scalars.push_back({}); }), "");
}

TEST(VerifyKernels, whatIsNotKnownIsNotChecked) {
  EXPECT_EQ(messageOf([](auto &, auto &kernel) { kernel.symbol = "other", kernel.range = 9; }), "");
}

TEST(VerifyKernels, anythingElseIsRefused) {
  const std::string place = "program 'layer.fwd': layer.fwd/half: kernel 'half': ";
  for (const int64_t range : {7, 9})
    EXPECT_EQ(messageOf([&](auto &, auto &kernel) { kernel.range = range; }),
              fmt::format("{}range = {}, but the kernel was compiled for 8; compile the plan again", place, range));
  EXPECT_EQ(messageOf([](auto &, auto &kernel) { kernel.scalars.clear(); }),
            place + "scalars = 0, but the kernel was compiled for 1; compile the plan again");
  EXPECT_EQ(messageOf([](auto &program, auto &) { program.instructions[0].operands.pop_back(); }),
            place + "operands = 1, but the kernel was compiled for 2; compile the plan again");
  EXPECT_EQ(messageOf([](auto &, auto &kernel) { kernel.uses[1].bytes = 36; }),
            place + "operand 1: the plan says 36 bytes in rows of 0, 0 apart, written, the kernel was compiled for 32 "
                    "bytes in rows of 0, 0 apart, written; compile the plan again");
  EXPECT_EQ(messageOf([](auto &, auto &kernel) { kernel.uses[1].use = plan::OperandUse::read; }),
            place + "operand 1: the plan says 32 bytes in rows of 0, 0 apart, read, the kernel was compiled for 32 "
                    "bytes in rows of 0, 0 apart, written; compile the plan again");
}

} // namespace
} // namespace mgc
