// The picture of a schedule. In: the lists of all stages with their seconds. Out: text.
#pragma once

#include "plan/play/PlanLists.h"

namespace mgc::schedule {

// One row per stage, time in columns: F forward, B backward, I input, W weight, each with its microbatch; Z R U are
// begin, reduce and update where they take time. A task of several time units is followed by dots, idle time is blank.
// Chunks of a stage are told apart by letters: F0a F0b. Rows longer than maxColumns end in "...".
std::string draw(const PlayLists &lists, int64_t virtualStages, int64_t maxColumns = 200);

// The plan's schedule with the costs of ChunkCost(): a backward takes two units, other tasks of microbatches one, all else no time.
std::string draw(const plan::Plan &plan, int64_t maxColumns);

} // namespace mgc::schedule
