// The parameters, and of a training that goes on all state, with which a run begins.
#pragma once

#include "runtime/comm/bootstrap/Processes.h"
#include "runtime/train/TrainingStart.h"

namespace mgc {

// Into the engine's ranks, and to their devices. Without --load they are drawn from the seed. `processes`: null where this
// process has all ranks; else all must have read the same.
Status loadParameters(const TrainingOptions &options, const TrainingStart &start, Engine &engine,
                      const Processes *processes, TrainingObserver &observer);

// Why the loss of `step` may not be finite: the weights that the run began with are looked at only now.
std::string whyNotFinite(const TrainingStart &start, const plan::Plan &plan, int64_t step);

} // namespace mgc
