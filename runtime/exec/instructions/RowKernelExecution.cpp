#include "runtime/exec/instructions/Execution.h"

namespace mgc {

Status prepare(const Preparation &at, const plan::RowKernel &kernel, PreparedCall &to) {
  to.kernel = at.kernels.kernel(kernel);
  const std::optional<KernelNeeds> needs = at.kernels.needsOf(kernel.symbol);
  to.scalars = needs ? needs->scalars : std::ssize(kernel.scalars);
  return Status::ok();
}

Status enqueue(const Enqueueing &at, const plan::RowKernel &) {
  return at.stream.launch(at.call.kernel, at.operands, at.scalars.first(at.call.scalars));
}

} // namespace mgc
