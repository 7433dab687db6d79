// Plan + rank -> RankRecord: operands flattened, scalars evaluated, kernels found, groups opened.
#pragma once

#include "runtime/exec/Records.h"

#include <functional>

namespace mgc {

struct ResolveContext {
  const plan::Plan &plan;       // verified; outlives the result, which points into it
  const KernelLibrary *kernels; // null when the plan has no row kernels, or its target is not the CPU
  uint64_t seed = 0;            // of the run: Scalar::Kind::seed
};

using OpenGroup = std::function<Result<GroupId>(const std::vector<int64_t> &ranks)>;

// Errors say which instruction, and what was not found. Row kernels have no function, and workspaces are left to the
// device, where the plan's target is not the CPU.
Result<RankRecord> resolveRank(const ResolveContext &context, int64_t rank, const OpenGroup &openGroup);
Result<RankRecord> resolveRank(const ResolveContext &context, int64_t rank, Communicator &communicator);

} // namespace mgc
