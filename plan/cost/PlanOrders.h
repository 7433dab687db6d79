// The schedule of a plan as it was before messages and memory: the tasks of each stage in order. In: a plan that passed provePlan.
#pragma once

#include "plan/Plan.h"
#include "plan/play/Solution.h"

namespace mgc::cost {

// A task in parts is one.
std::vector<schedule::Order> ordersOf(const plan::Plan &plan);

} // namespace mgc::cost
