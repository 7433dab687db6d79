// plan::GroupRows on a CPU: a counting sort.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

namespace mgc {

// In and out: operands as the plan's instruction has them. An error names the row whose number is wrong; then nothing was
// written.
Status groupRows(const plan::GroupRows &what, const int32_t *numbers, int32_t *counts, int32_t *places,
                 int32_t *sources);

} // namespace mgc
