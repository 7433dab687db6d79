#include "runtime/exec/instructions/Execution.h"

namespace mgc {

// The address of memory of the host is the pointer to it.
Status enqueue(const Enqueueing &at, const plan::HostCopy &copy) {
  const mgc_address from = at.operands.front(), to = at.operands.back();
  return copy.direction == plan::HostCopy::Direction::in
             ? at.stream.copyIn(to, reinterpret_cast<const void *>(from), copy.bytes)
             : at.stream.copyOut(reinterpret_cast<void *>(to), from, copy.bytes);
}

} // namespace mgc
