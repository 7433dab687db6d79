// See HostBudget.h.
#include "compiler/assemble/HostBudget.h"

#include "compiler/assemble/TaskTimes.h"
#include "dialects/mg/training/MemorySize.h"

#include <cmath>

using namespace mlir;

namespace mgc {

Status verifyHostMemory(const Decisions &decisions) {
  const TrainingSettings &training = trainingOf(decisions.module);
  if (training.hostMemory.empty())
    return Status::ok();
  MGC_ASSIGN(size, parseMemorySize(training.hostMemory));
  int64_t budget = size.bytes;
  if (size.share > 0) {
    MGC_ASSIGN(machine, machineNamedIn(decisions.module));
    budget = int64_t(machine.host.bytes * size.share);
  }
  const auto most = llvm::max_element(decisions.stages, [](const StageDecisions &a, const StageDecisions &b) {
    return a.memory.hostBytes < b.memory.hostBytes;
  });
  const int64_t needed = most->memory.hostBytes;
  if (needed <= budget)
    return Status::ok();
  // Parts of buckets are rounded: a little less is sure.
  const double fraction = std::floor(1000 * training.optimizerOffload * double(budget) / double(needed)) / 1000;
  return errorf("stage {} takes {} bytes of the host, {} more than the {} of --host-memory {}\n  possible: --host-memory "
                "{}{}, or less for a rank: more of --tp, --pp or, with data ranks, of --zero",
                most - decisions.stages.begin(), needed, needed - budget, budget, training.hostMemory, needed,
                fraction > 0 ? fmt::format(", --optimizer-offload-fraction {}", fraction) : "");
}

} // namespace mgc
