#include "runtime/exec/instructions/Execution.h"

namespace mgc {

Status enqueue(const Enqueueing &at, const plan::Collective &collective) {
  const mgc_address source = at.operands[0], destination = at.operands[1];
  if (at.isOfLane)
    return at.communicator.concurrentCollective(at.record.group, collective, source, destination);
  const mgc_address workspace = collective.workspaceBytes > 0 ? at.operands[2] : 0;
  return at.communicator.collective(at.stream, at.record.group, collective, source, destination, workspace);
}

} // namespace mgc
