#include "runtime/plan/VerifyParts.h"

#include <filesystem>

namespace mgc::plan {

static constexpr int64_t kMaxStepTokens = int64_t(1) << 40;

static bool runsRowKernels(const Plan &plan) {
  for (const Program &program : plan.programs)
    for (const Instruction &instruction : program.instructions)
      if (std::holds_alternative<RowKernel>(instruction.body))
        return true;
  return false;
}

// A library is loaded from the bundle and from nowhere else.
static void verifyLibrary(Checks &checks) {
  std::filesystem::path library = checks.plan.kernelLibrary;
  bool inside = library.is_relative() && std::ranges::find(library, "..") == library.end();
  Place root;
  checks.violations.expect(inside, root.field("kernelLibrary"),
                           "'{}' must be a path inside the bundle, without ..", library.string());
  checks.violations.expect(!library.empty() || !runsRowKernels(checks.plan), root.field("kernelLibrary"),
                           "is empty, but programs run row kernels");
}

void verifyNumbers(Checks &checks) {
  const Plan &plan = checks.plan;
  Place root;
  auto positive = [&](std::string_view name, int64_t value) {
    checks.violations.expect(value > 0, root.field(name), "found {}, expected a positive number", value);
  };
  positive("sequenceLength", plan.sequenceLength);
  positive("microBatchSize", plan.microBatchSize);
  positive("globalBatchSize", plan.globalBatchSize);
  positive("microbatches", plan.microbatches);
  positive("vocabulary", plan.vocabulary);
  positive("virtualStages", plan.virtualStages);
  Checked tokens = checkedMultiply(plan.globalBatchSize, plan.sequenceLength);
  checks.violations.expect(tokens && *tokens <= kMaxStepTokens, root.field("globalBatchSize"),
                           "{} samples of {} tokens are more than 2^40 tokens per step", plan.globalBatchSize,
                           plan.sequenceLength);
  checks.violations.expect(plan.zero == 0 || plan.zero == 1, root.field("zero"), "found {}, expected 0 or 1",
                           plan.zero);
  checks.violations.expect(plan.dtype == "f32", root.field("dtype"), "found '{}', expected 'f32'",
                           plan.dtype);
  verifyLibrary(checks);
}

} // namespace mgc::plan
