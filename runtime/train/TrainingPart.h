// A part of a run: its steps with batches of one size, from a start to where the batch changes or the training ends. Most runs have
// one.
#pragma once

#include "runtime/base/MachineMemory.h"
#include "runtime/comm/mpi/MpiWorld.h"
#include "runtime/data/TextLines.h"
#include "runtime/train/EvaluationProgress.h"
#include "runtime/train/RunPlans.h"
#include "runtime/train/TrainingStart.h"

namespace mgc {

// The state that the parts of a run share.
struct RunShared {
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  std::vector<MemoryLimit> limits;          // before anything of the run was allocated
  std::unique_ptr<Processes> processes;     // null: this one is alone
  std::unique_ptr<MpiWorld> world;          // for CPU ranks
  std::unique_ptr<Communicator> storeHosts; // for ranks on devices
  StepChecks checks;
  EvaluationProgress evaluations;
  TokenizedLines texts;
  int64_t parts = 0; // parts that have begun
  // The last one, whose engine goes after the last word to the other processes: until then they may wait for its ranks.
  std::shared_ptr<void> part;
};

struct PartResult {
  TrainingSummary summary; // summary of the part's steps
  int64_t stepsDone = 0;   // steps of the training
  bool isOver = false;     // no other part follows
};

// `options` are of the rank and name the whole run's plan; `plans` has that of the part. `evaluation`: null, or the plan that
// evaluates. At the end of a part that is not the last, a checkpoint of its last step is in the folder of --save.
Result<PartResult> trainPart(const TrainingOptions &options, const RunPlans &plans, const plan::Plan *evaluation,
                             const TrainingStart &start, RunShared &shared, TrainingObserver &observer,
                             Interrupt &interrupt);

} // namespace mgc
