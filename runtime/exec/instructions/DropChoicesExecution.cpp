#include "runtime/device/CallFacts.h"
#include "runtime/exec/instructions/Execution.h"

namespace mgc {

Status enqueue(const Enqueueing &at, const plan::DropChoices &what) {
  return at.stream.dropChoices(factsOf(what), {.experts = at.operands[0],
                                               .weights = at.operands[1],
                                               .positions = at.operands[2],
                                               .kept = at.operands[3],
                                               .workspace = at.operands[4]});
}

} // namespace mgc
