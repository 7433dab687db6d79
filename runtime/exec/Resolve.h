// Plan + rank -> RankRecord: operands flattened, scalars evaluated, groups opened.
#pragma once

#include "runtime/exec/Records.h"

namespace mgc {

// `plan` is verified, and outlives the result, which points into it. `seed`: of the run, Scalar::Kind::seed. Errors say which
// instruction, and what was not found.
Result<RankRecord> resolveRank(const plan::Plan &plan, uint64_t seed, Communicator &communicator);

} // namespace mgc
