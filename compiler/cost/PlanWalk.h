// How often a plan runs what: the one place of this library that walks programs, chunks and schedules.
#pragma once

#include "compiler/schedule/solver/Schedule.h"
#include "plan/Plan.h"

namespace mgc::cost {

template <typename Visit> void forEachInstruction(const plan::Program &program, Visit &&visit) {
  for (const plan::Instruction &instruction : program.instructions)
    visit(instruction);
}

template <typename Visit> void forEachCall(const plan::Chunk &chunk, Visit &&visit) {
  for (const plan::Call &call : chunk.calls)
    visit(call);
}

template <typename Visit> void forEachStep(const plan::StagePlan &stage, Visit &&visit) {
  for (const plan::ScheduleStep &step : stage.schedule)
    visit(step);
}

// How often a training step runs all of each chunk.
std::vector<int64_t> runsOfChunks(const plan::StagePlan &stage);

// Of the whole parameter, without padding.
int64_t elementsOf(const plan::Parameter &parameter);

schedule::ScheduledTask taskOf(const plan::Chunk &chunk, int64_t microbatch);

// The schedule as its solver has it, without buffers.
schedule::Solution solutionOf(const plan::Plan &plan);

} // namespace mgc::cost
