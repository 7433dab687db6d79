// How much of what gathers and sums up units (ZeRO-2 and 3) other instances hide. In: a chunk whose calls come in order, and the seconds of
// each program by itself. Out: the change of their sum.
//
// On a target whose collectives leave its cores to matrix products (plan::leavesCoresToProducts) a unit's collective is hidden by
// the products and attention of the calls behind it, up to the first call that binds bytes that it touches. What a call's own
// collectives hide behind is taken.
//
//   gather 1 | layer 0: 5 s, of which 2 s hide its own | layer 1 reads what was gathered
//   |---------- hidden: at most 3 s ------------------|
#pragma once

#include "plan/Plan.h"
#include "plan/cost/ProgramTime.h"

namespace mgc::cost {

// `programs`: by program of the plan. Exposed seconds are negative, hidden ones are as many.
ProgramTime hiddenUnits(const plan::Plan &plan, const plan::StagePlan &stage, const plan::Chunk &chunk,
                        const std::vector<ProgramTime> &programs);

} // namespace mgc::cost
