// mg.stage and mg.schedule as a scheduling problem and its solution.
#pragma once

#include "compiler/assemble/schedule/Schedule.h"
#include "compiler/stage/ChunkLayout.h"

namespace mgc::schedule {

// The scheduling problem of the chunks of all stages. Error: no such schedule, or one that does not take the shape or
// the functions that grad built.
Result<Problem> readProblem(mlir::ModuleOp module, const Blocks &blocks);

// The steps of all stages; each use of memory is a buffer of its own, without a lifetime. Error: a stage without
// one mg.schedule, a step of no known pass.
Result<Solution> readSolution(mlir::ModuleOp module, const Problem &problem);

// That the stages run their tasks in the order of the schedule that the problem names: what is said of it elsewhere, its
// bubble and its memory, is said of that order.
Status verifyName(const Problem &problem, const Solution &solution);

} // namespace mgc::schedule
