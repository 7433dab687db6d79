// The part of verify() about data in memory. In: a well-formed problem and solution. Out: problems.
#pragma once

#include "compiler/schedule/Schedule.h"
#include "test/plan/prove/Match.h"

namespace mgc::schedule {

// Every run uses the buffers its task must use; every read finds the value it expects, complete; nothing is
// overwritten that may still be read or written.
void verifyData(const Problem &problem, const Solution &solution, int64_t stage, Problems &problems);

} // namespace mgc::schedule
