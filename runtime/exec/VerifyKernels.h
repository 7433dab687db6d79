// A bounds check of a plan's row kernels: only the kernel library knows how far they go. With verifyPlan
// (plan/prove/VerifyPlan.h) no plan, however it was edited, reaches beyond its memory.
#pragma once

#include "plan/Plan.h"
#include "runtime/device/KernelNeeds.h"

namespace mgc {

// Precondition: verifyPlan is ok. Errors name the instruction whose range, scalars or operands are not those for which
// its kernel was compiled.
Status verifyKernels(const plan::Plan &plan, const KernelFacts &library);

} // namespace mgc
