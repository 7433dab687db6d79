// Model FLOPs: what a training step needs, however it is laid out. In: a plan that passed provePlan. docs/cost.md
// (Utilisation) defines the number.
#pragma once

#include "plan/Plan.h"

namespace mgc::cost {

// Model FLOPs of all ranks in a step: for each parameter 6 x elements x the positions that meet it (of a frozen one 4
// x, or 2 x where no gradient passes it), and 3 x attention of a forward pass. If there are two matrices of the
// vocabulary the head's counts, as the table of the embedding is only looked up.
double modelFlops(const plan::Plan &plan);

} // namespace mgc::cost
