// The best rates of this machine, measured with the threads of a run: a profile compares steps with them.
#pragma once

#include "runtime/exec/Engine.h"

namespace mgc {

struct MachineRates {
  double flops = 0;     // a second, of the best of a few large matrix products
  double bf16Flops = 0; // the same of bf16 operands, on the CPU for a plan of bf16; 0: flops counts for them too
  double bytes = 0;     // a second, read and written, of the best of a copy, a triad and an update in place
};

// All ranks at once, each with its threads; of ranks that have no cores of their own, as many as there are cores.
// Takes a second or two, and for as long 192 MiB, or 36 MiB for each of more than five ranks. An error when there is no
// such memory.
Result<MachineRates> measureRates(Engine &engine);

} // namespace mgc
