// The settings of a run that its numbers depend on, as flags and values: what processes of a run must agree on, and what a run that
// continues another must have alike.
#pragma once

#include "runtime/base/Problems.h"
#include "runtime/checkpoint/CheckpointRecord.h"
#include "runtime/train/Training.h"

namespace mgc {

// The settings that decide which samples come, and what is drawn for them. The file of the data is not among them.
Settings dataSettings(const TrainingOptions &options);

// The settings of AdamW and of the learning rate that count in this run; of --lr-list the first `rates`.
Settings optimizerSettings(const TrainingOptions &options, int64_t rates);

// The settings that a run may change where it goes on, and says so.
Settings notedSettings(const TrainingOptions &options);

// Adds a line for each of `found` that is not as in `expected`.
void compareSettings(const Settings &found, const Settings &expected, std::string_view advice, Problems &problems);

// A line for each setting that both have with different values: "--eval-iters: 3, and 100 in the checkpoint".
std::vector<std::string> changesOf(const Settings &found, const Settings &checkpoint);

} // namespace mgc
