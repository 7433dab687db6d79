// PlanFit for people.
#pragma once

#include "plan/Plan.h"

namespace mgc::plan {

// A line for each change, under a head; empty: the plan knows none.
std::string changesText(const Plan &plan);

} // namespace mgc::plan
