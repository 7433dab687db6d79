// Where the runs of a rank's schedule wait for their concurrent collectives: plan/Joins.h, of each run with its slots.
#pragma once

#include "plan/Joins.h"
#include "runtime/exec/Records.h"

#include <functional>

namespace mgc {

// The runs of a schedule with the same instructions and slots have the same joins.
struct StepJoins {
  // Instructions are numbered as those of the chunk.
  struct Runs {
    std::vector<plan::Join> joins;
    std::vector<int64_t> turns;
    int64_t first = -1; // schedule index of one of the runs
    int64_t count = 0;
  };
  std::vector<Runs> runs;
  std::vector<size_t> ofStep; // by schedule index: in `runs`; no matter for transfers
};

// `laneOf`: of an instruction of a chunk; plan::JoinPoints::kMain for all but concurrent collectives. `keepsGroups`: collectives of
// one group run in order, on whichever lane.
using LaneOf = std::function<int64_t(int64_t chunk, int64_t instruction)>;
StepJoins joinsOf(const plan::Plan &plan, const RankRecord &record, const LaneOf &laneOf, bool keepsGroups);

} // namespace mgc
