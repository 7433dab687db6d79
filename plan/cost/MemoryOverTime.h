// How much of a rank's memory holds something, over a predicted step. In: a plan that passed provePlan and the timing of its steps.
// Out: bytes by Region::kind. The allocation itself is as large all the time; what a kind leaves free here is what another value
// may take, or a later microbatch.
//
//   activations   a ring's value of a microbatch: from the start of the step that writes it to the end of the last that reads it
//   frame         while a chunk runs, the largest frame of its calls
//   all else      the whole region: parameters, gradients, optimizer, inputs, scalars
#pragma once

#include "plan/Plan.h"
#include "plan/play/Player.h"

namespace mgc::cost {

struct MemoryChange {
  double seconds = 0; // from the beginning of the step
  int64_t bytes = 0;  // held from then on
};
struct MemoryCurve {
  std::string kind;
  std::vector<MemoryChange> changes; // ascending, the first at 0
};

// One curve for each kind, in the order of the regions. `times`: those of the stage's steps.
std::vector<MemoryCurve> memoryOverTime(const plan::StagePlan &stage, const std::vector<plan::Program> &programs,
                                        const schedule::StepTimes &times);

} // namespace mgc::cost
