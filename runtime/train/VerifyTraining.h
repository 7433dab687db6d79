// Checks of the options of a training run, before anything is loaded or written.
#pragma once

#include "plan/BatchSizes.h"
#include "runtime/train/Training.h"

namespace mgc {

// `first`: the step that the run begins with.
Status verifyIterations(const TrainingOptions &options, int64_t first);
// Whether the samples trained and evaluated on can be counted. `evaluation`: null, or the plan that evaluates.
Status verifySamples(const TrainingOptions &options, const plan::BatchSizes &sizes, const plan::Plan *evaluation);
Status verifyPlanFlags(const TrainingOptions &options, const plan::Plan &plan);

// Flags that mean nothing for the plan's model.
Status verifyModelFlags(const TrainingOptions &options, const plan::Plan &plan);

// Requires that every output can be written, and is neither an input of the run nor another output's file.
Status verifyOutputs(const TrainingOptions &options, const plan::Plan &plan);

} // namespace mgc
