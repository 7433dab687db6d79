// The end of a step, and the calls around those of units, priced by the buckets of a stage, without its functions
// (compiler/step/StepBuilder.h builds these). In: buckets with their states. Out: seconds by task, and the largest frame.
#pragma once

#include "compiler/assemble/StageContents.h"
#include "plan/cost/ProgramTime.h"

namespace mgc::planner {

struct UnitSeconds { // seconds of one unit of a bucket
  double gather = 0, clear = 0, sum = 0, accumulate = 0;
};

struct StepEnd {
  double begin = 0, reduce = 0, update = 0;
  std::vector<double> gradients;  // by part of the stage
  std::vector<UnitSeconds> units; // by bucket
  int64_t frame = 0;              // bytes of the largest frame of these tasks
};

// parts: of which part of the stage the bucket's gradients are completed; -1: at the end.
StepEnd stepEndOf(const cost::Cluster &cluster, const StageContents &stage, const std::vector<int64_t> &partOf,
                  int64_t parts);

} // namespace mgc::planner
