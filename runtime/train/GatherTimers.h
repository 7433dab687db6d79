// Timers of steps from all processes of a run.
#pragma once

#include "runtime/comm/bootstrap/Processes.h"

namespace mgc {

// The seconds of each process, by its rank; all processes call it.
Result<std::vector<std::vector<double>>> gatherTimers(Processes &processes, const std::vector<double> &own);

} // namespace mgc
