// plan::DropChoices on a CPU.
#pragma once

#include "plan/instructions/DropChoicesInstruction.h"
#include "runtime/base/Status.h"

namespace mgc {

// In and out: operands as the plan's instruction has them. An error names the choice whose number is wrong; then nothing was
// written.
Status dropChoices(const plan::DropChoices &what, const int32_t *experts, const float *weights,
                   const int32_t *positions, int32_t *kept, int32_t *workspace);

} // namespace mgc
