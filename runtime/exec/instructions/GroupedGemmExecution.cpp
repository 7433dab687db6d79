#include "runtime/device/CallFacts.h"
#include "runtime/exec/instructions/Execution.h"

namespace mgc {

Status enqueue(const Enqueueing &at, const plan::GroupedGemm &gemm) {
  return at.stream.groupedGemm(
      factsOf(gemm), {.a = at.operands[0], .b = at.operands[1], .counts = at.operands[2], .c = at.operands[3]});
}

} // namespace mgc
