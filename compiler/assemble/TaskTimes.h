// How long the tasks of chunks take, for schedules that plan by time: their programs on the machine that the layout names, by
// the cost library (docs/cost.md).
#pragma once

#include "compiler/assemble/Decisions.h"

namespace mgc {

// Sets `costs` and `messageSeconds` of a problem that has its shape and sizes. The machine is `machine` of mg.training, its
// name or the text of its file; without it the first of the library for the target. Error: there is no such machine.
Status addTimes(mlir::ModuleOp module, const std::vector<StageDecisions> &stages, const ProgramDecisions &programs,
                schedule::Problem &problem);

} // namespace mgc
