#include "runtime/exec/instructions/Execution.h"

namespace mgc {

Status enqueue(const Enqueueing &at, const plan::ExchangeRows &what) {
  return at.communicator.exchangeRows(at.stream, at.record.group, what, at.operands[0], at.operands[1],
                                      at.operands[2]);
}

} // namespace mgc
