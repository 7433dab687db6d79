// plan::GroupedGemm on a CPU: a matrix product of the library for each group.
#pragma once

#include "plan/instructions/GroupedGemmInstruction.h"
#include "runtime/base/Status.h"

namespace mgc {

// In: operands as the plan's instruction has them. Equal bits for equal counts and threads. Rows behind the last group are not
// read, and not written in the result. An error names the group whose count is wrong; then nothing was written.
Status groupedGemm(const plan::GroupedGemm &gemm, const void *a, const void *b, const int32_t *counts, void *c,
                   int threads);

} // namespace mgc
