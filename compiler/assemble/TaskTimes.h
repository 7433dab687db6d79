// How long the tasks of chunks take, for schedules that plan by time: their programs on the machine that the layout names, by
// the cost library (docs/cost.md).
#pragma once

#include "compiler/assemble/Decisions.h"
#include "plan/cost/Cluster.h"

namespace mgc {

// The machine is `machine` of mg.training, its name or the text of its file; without it the first of the library for the target.
// Error: there is no such machine.
Result<cost::Machine> machineNamedIn(mlir::ModuleOp module);

class ProgramSeconds {
public:
  ProgramSeconds() = default;
  // By function.
  ProgramSeconds(std::map<std::string, double> seconds, const cost::MessageRates &messages)
      : seconds_(std::move(seconds)), messages_(messages) {}
  // Error: that of machineNamedIn.
  static Result<ProgramSeconds> of(mlir::ModuleOp module, const ProgramDecisions &programs);
  double of(const BlockFunction &function) const; // 0: it does nothing
  // Seconds of a message of so many bytes between stages.
  double message(int64_t bytes) const;
  // Tasks of one microbatch in a chunk, without what reduces gradients of units: it is the same in every order.
  schedule::ChunkCost of(const ChunkLayout &chunk) const;

private:
  std::map<std::string, double> seconds_; // by function
  cost::MessageRates messages_;
};

// Sets `costs` and `messageSeconds` of a problem that has its shape and sizes. Error: that of machineNamedIn.
Status addTimes(mlir::ModuleOp module, const std::vector<StageDecisions> &stages, const ProgramDecisions &programs,
                schedule::Problem &problem);

} // namespace mgc
