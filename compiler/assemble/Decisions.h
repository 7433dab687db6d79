// The module of phase fuse -> everything that is decided before the plan is built (Assemble.h), as plain structs: the
// frame and program of each function, the schedule of each stage, and where everything of a stage lies in a rank's
// allocation.
#pragma once

#include "compiler/assemble/FirstGathers.h"
#include "compiler/assemble/HostCopies.h"
#include "compiler/assemble/Programs.h"
#include "compiler/assemble/StageMemory.h"

namespace mgc {

struct StageDecisions {
  StageOp op; // null of a stage that is planned without one (planner/search)
  StageContents contents;
  std::vector<ChunkLayout> chunks;
  FirstGathers firstGathers;
  schedule::PeriodicStage schedule;
  StageMemory memory;
};

struct ProgramDecisions {
  std::vector<AssembledProgram> programs;
  std::map<std::string, int64_t> byFunction; // by its name; one that does nothing has none
  KernelGraphs kernels;                      // kernels of all programs
  HostCopyPrograms hostCopies;
};

struct Decisions {
  mlir::ModuleOp module;
  Blocks blocks; // chunks point into them
  Frames frames;
  ProgramDecisions programs;
  std::optional<double> scheduleMemory; // as mg.training has it, or where it has none what --memory chose
  schedule::Problem problem;            // the schedules of the stages are its solution
  plan::PlanBudget budget;
  std::vector<StageDecisions> stages;
};

// Adds what the schedule has to know of a stage's chunks. parts: of each chunk, Problem::parts.
void addChunks(const StageDecisions &stage, std::vector<int64_t> parts, schedule::Problem &problem);

// Error: no such schedule, one that does not take the shape or the functions that grad built, sizes that 64 bits do not
// hold.
// leastBudget: where the error is that of --memory, the least that would do.
Result<Decisions> decide(mlir::ModuleOp module, std::optional<int64_t> *leastBudget = nullptr);

} // namespace mgc
