// StepTimers: how long the kinds of work of a step took on each rank, for logs while a run goes on, by Megatron-LM's names for
// them. Profile.h is of each kernel, at the end.
//   in:  the timelines of this process's ranks, of which the engine measures some steps
//   out: seconds of each timer
#pragma once

#include "runtime/exec/Engine.h"

namespace mgc {

// In the order of ranks.
struct StepTimer {
  std::string name;
  std::vector<double> seconds;
  double least() const;
  double most() const;
};

class StepTimers {
public:
  // `level`: of --timing-log-level. 1: forward-backward, all-grads-sync, optimizer; 2: also what the first of them is made of.
  explicit StepTimers(int level) : level_(level) {}

  // Seconds of each timer in a step, by rank of this process: the mean over the steps that were measured since the last reading.
  std::vector<std::vector<double>> read(const Recording &recording);
  // `ofRanks`: of all ranks, what read() gave where they are.
  std::vector<StepTimer> timersOf(const std::vector<std::vector<double>> &ofRanks) const;

private:
  int level_;
  std::vector<std::vector<double>> before_; // sums up to the last reading; of each rank the last is of measured steps
};

} // namespace mgc
