// How much slower products are concurrently with the stream of the task gradients, whose collectives take units of the device from them
// (LinkLevel::units). In: a stage, and the seconds of one run of each of its chunks. Out: seconds for each step of its list.
//
// The stream goes on along with all that runs. Of what is left of it when a run begins, products and attention are concurrent with as
// much as they can be, which is on the safe side; gaps between runs are not counted.
//
//   gradients       |------- 6 s ------|
//   backward   part | products 4 s, half of the units: 8 s | rows 1 s
#pragma once

#include "plan/cost/RunTime.h"

namespace mgc::cost {

// `chunks`: by chunk of the stage. `taken`: the share of the units that the stream takes, less than 1. A step in a repeat takes so much
// more in each iteration.
std::vector<double> slowedByGradients(const plan::StagePlan &stage, const std::vector<RunTime> &chunks, double taken);

} // namespace mgc::cost
