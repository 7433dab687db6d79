// The waits of a stage's list. In: steps with their reads and writes, buffers with offsets. Out: Step::waits.
#pragma once

#include "compiler/assemble/schedule/Schedule.h"

namespace mgc::schedule {

// Fills the waits of every step: one for each earlier use of the same memory that the step must follow and that neither
// the order of runs nor another wait implies. Data and reuse of memory are one rule: a read follows the last write, a
// write follows the last write and the reads since. In a pair of runs the first has the waits of both.
void addWaits(StageSchedule &stage);

} // namespace mgc::schedule
