// A training run whose ranks are processes: what each does of it, and what all must do alike.
#pragma once

#include "runtime/comm/bootstrap/Processes.h"
#include "runtime/train/Training.h"

namespace mgc {

// The options of one process: files of its own, or none where rank 0 writes for all.
TrainingOptions optionsOfRank(TrainingOptions options);

// The settings that the numbers depend on, and the files that are written. The data, which each process reads itself,
// are compared step by step. `start`: TrainingStart::describe.
RunIdentity identityOf(const TrainingOptions &options, const plan::Plan &plan, uint64_t planHash,
                       const std::string &start);

} // namespace mgc
