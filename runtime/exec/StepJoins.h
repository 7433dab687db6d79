// Where the runs of a rank's schedule wait for the collectives that they have enqueued beside themselves (JoinPoints.h), with
// the bytes that each instruction touches in that very run: slots lie elsewhere in each. A run's end joins the rest.
#pragma once

#include "runtime/exec/Records.h"

#include <functional>
#include <optional>

namespace mgc {

struct Join {
  int64_t before = 0; // instruction of the chunk; the end of the run's for what no instruction must wait for
  int64_t collective = 0; // instruction of the chunk
};

// By schedule index, in order; empty for transfers. `laneOf`: of an instruction of a chunk; JoinPoints::kMain for all but
// collectives beside. `keepsGroups`: collectives of one group run in order, on whichever lane.
using LaneOf = std::function<int64_t(int64_t chunk, int64_t instruction)>;
std::vector<std::vector<Join>> joinsOf(const plan::Plan &plan, const RankRecord &record, const LaneOf &laneOf,
                                       bool keepsGroups);

} // namespace mgc
