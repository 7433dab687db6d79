// Plan + rank -> RankRecord: operands flattened, scalars evaluated, kernels found, groups opened.
#pragma once

#include "runtime/exec/Records.h"

namespace mgc {

struct ResolveContext {
  const plan::Plan &plan;       // verified; outlives the result, which points into it
  const KernelLibrary *kernels; // null when the plan has no row kernels
  uint64_t seed = 0;            // of the run: Scalar::Kind::seed
};

// Errors say which instruction, and what was not found.
Result<RankRecord> resolveRank(const ResolveContext &context, int64_t rank, Communicator &communicator);

} // namespace mgc
