// How long copies between host and device hold up a chunk, whose slots lie where those of the first microbatch do. In: a chunk whose calls come in order, and the seconds of each program
// by itself. Out: seconds that nothing hides, and seconds that are hidden behind the chunk's other calls and each other.
//
// Copies in follow each other, copies out too, at the same time as those in. A copy begins when the calls before it are done and
// what touches its bytes; a call begins when the copies before it that touch its bytes are done (docs/engine.md):
//
//
//   in          |in 0 |in 1 |     in 2 |
//   calls             |u0    |u1        |u2
//   out                  |out 0 |out 1     |out 2 |
#pragma once

#include "plan/Plan.h"
#include "plan/cost/ProgramTime.h"

namespace mgc::cost {

struct HostCopyTime {
  double exposed = 0, hidden = 0;
};

// `programs`: by program of the plan.
HostCopyTime hostCopyTime(const Cluster &cluster, const plan::Plan &plan, const plan::StagePlan &stage,
                          const plan::Chunk &chunk, const std::vector<ProgramTime> &programs);

} // namespace mgc::cost
