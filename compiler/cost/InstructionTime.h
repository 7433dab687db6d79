// Seconds of one instruction on one rank, by its plan::Work: the one place, a formula for each WorkKind.
#pragma once

#include "compiler/cost/Cluster.h"

namespace mgc::cost {

// Time from the start of the instruction to that of the next, with nothing concurrent; of the slowest rank where ranks
// have unequal work.
//   product      max(FLOPs of whole waves of tiles / (peak x fraction), bytes / memory) + launch
//   attention    max(FLOPs / (peak x fraction), bytes / memory) + launch
//   row kernel   max(FLOPs / (f32 peak x rows), bytes / memory) + launch
//   move         bytes / memory + launch
//   collective   as Cluster.h + launch
double secondsOf(const Cluster &cluster, const plan::InstructionBody &body);
// The same of an instruction whose work is known.
double secondsOf(const Cluster &cluster, const plan::InstructionBody &body, const plan::Work &work);

} // namespace mgc::cost
