// Where the runs of a rank's schedule wait for their concurrent collectives (JoinPoints.h), with the bytes that each
// instruction touches in that run: each run has other slots. A run's end joins the rest.
#pragma once

#include "runtime/exec/Records.h"

#include <functional>
#include <optional>

namespace mgc {

struct Join {
  int64_t before = 0;     // instruction of the chunk; the end of the run's for what no instruction must wait for
  int64_t collective = 0; // instruction of the chunk
};

// The runs of a schedule with the same instructions and slots have the same joins.
struct StepJoins {
  struct Runs {
    std::vector<Join> joins; // in order
    // Where its turns begin (plan/PairTurns.h): at its first instruction, and where it waits for an exchange of rows.
    std::vector<int64_t> turns;
    int64_t first = -1; // schedule index of one of the runs
    int64_t count = 0;
  };
  std::vector<Runs> runs;
  std::vector<size_t> ofStep; // by schedule index: in `runs`; no matter for transfers
};

// `laneOf`: of an instruction of a chunk; JoinPoints::kMain for all but concurrent collectives. `keepsGroups`: collectives of
// one group run in order, on whichever lane.
using LaneOf = std::function<int64_t(int64_t chunk, int64_t instruction)>;
StepJoins joinsOf(const plan::Plan &plan, const RankRecord &record, const LaneOf &laneOf, bool keepsGroups);

} // namespace mgc
