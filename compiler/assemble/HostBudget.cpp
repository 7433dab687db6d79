// See HostBudget.h.
#include "compiler/assemble/HostBudget.h"

#include "compiler/assemble/TaskTimes.h"
#include "compiler/step/OffloadPieces.h"
#include "dialects/mg/training/MemorySize.h"

using namespace mlir;

namespace mgc {

// Bytes of a stage on the host with another fraction.
static int64_t hostBytes(StageOp stage, double fraction) {
  const SmallVector<BucketOp> buckets = stage.all<BucketOp>();
  const auto mesh = stage->getParentOfType<ModuleOp>()->getAttrOfType<MeshAttr>(kMeshAttr);
  int64_t bytes = 0;
  for (const auto &[bucket, pieces] : llvm::zip(buckets, updatePieces(buckets, mesh, fraction)))
    for (const UpdatePieces &piece : pieces)
      bytes += piece.isOnHost ? piece.parts * piece.count * bytesOfPart(bucket, BucketTypes(bucket, mesh)) : 0;
  return bytes;
}

// The greatest fraction, in thousandths, with which no stage takes more; 0: none. Bytes grow with the fraction, but for the
// rounding to whole parts of buckets: a fraction a little greater may fit too.
static double fittingFraction(const Decisions &decisions, int64_t budget) {
  const auto fits = [&](int64_t thousandths) {
    return llvm::all_of(decisions.stages, [&](const StageDecisions &stage) {
      return hostBytes(stage.op, double(thousandths) / 1000) + stage.schedule.hostBytes <= budget;
    });
  };
  int64_t fitting = 0, tooMuch = 1000; // the fraction that was asked for is too much
  while (tooMuch - fitting > 1) {
    const int64_t middle = (fitting + tooMuch) / 2;
    (fits(middle) ? fitting : tooMuch) = middle;
  }
  return double(fitting) / 1000;
}

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
  const int64_t activations = most->schedule.hostBytes;
  const double fraction = training.optimizerOffload > 0 ? fittingFraction(decisions, budget) : 0;
  return errorf(
      "stage {} takes {} bytes of the host, {} more than the {} of --host-memory {}\n  possible: --host-memory "
      "{}{}, or less for a rank: more of --tp, --pp or, with data ranks, of --zero",
      most - decisions.stages.begin(), needed, needed - budget, budget, training.hostMemory, needed,
      fmt::format("{}{}", fraction > 0 ? fmt::format(", --optimizer-offload-fraction {}", fraction) : "",
                  activations > 0 ? ", fewer --offload-modules or layers (--activation-offload-fraction)" : ""));
}

} // namespace mgc
