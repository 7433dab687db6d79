#include "runtime/exec/instructions/Execution.h"

namespace mgc {

Status enqueue(const Enqueueing &at, const plan::ExchangeRows &what) {
  const RowBuffers rows = {at.operands[0], at.operands[1], at.operands[2], at.hasSameCounts};
  return at.isOfLane ? at.communicator.concurrentExchangeRows(at.record.group, what, rows)
                     : at.communicator.exchangeRows(at.stream, at.record.group, what, rows);
}

} // namespace mgc
