// Proof that the lists of all stages run to their ends against each other. In: a plan that passed verifyPlan and proveMatching.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Problems.h"

namespace mgc::plan {

// Each stage issues its steps in list order. A step whose waits are not over holds up all after it; a message is over when both of
// its ends have been issued; a run with collectives between stages holds the list up until all of the group have come. Stages that
// take part in a collective have the same collectives of its group, in the same order.
//
// The player of schedules plays the lists with steps that take no time (plan/play/Player.h), in rounds, of which it passes over
// those that repeat others: a cycle of steps that wait for each other would have stopped the rounds that were played.
// Error: the steps that wait for each other.
void proveProgress(const Plan &plan, Problems &problems);

} // namespace mgc::plan
