// plan::GroupRows on a CPU: a counting sort.
#pragma once

#include "plan/instructions/GroupRowsInstruction.h"
#include "runtime/base/Status.h"

namespace mgc {

// The groups of a rank: `what.groups` from `first` on, of `all`; rows of the number `all` are of none.
struct GroupShare {
  int64_t first = 0, all = 0;
};

// In and out: operands as the plan's instruction has them. An error names the row whose number is wrong, or the groups that have
// more rows than there are places; then nothing was written.
Status groupRows(const plan::GroupRows &what, const GroupShare &share, const int32_t *numbers, int32_t *counts,
                 int32_t *places, int32_t *sources);

} // namespace mgc
