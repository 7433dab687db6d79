// plan::GroupRows on a CPU: a counting sort.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/DeviceApi.h"

#include <cstdint>

namespace mgc {

// In and out: operands as the plan's instruction has them. An error names the row whose number is wrong, or the groups that have
// more rows than there are places; then nothing was written.
Status groupRows(const mgc_group_rows_facts &what, const int32_t *numbers, int32_t *counts, int32_t *places,
                 int32_t *sources);

} // namespace mgc
