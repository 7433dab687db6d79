// The row "auto": orders from the times of tasks, under a cap on live activations.
#pragma once

#include "compiler/schedule/solver/Schedule.h"

namespace mgc::schedule {

std::vector<Order> automatic(const Problem &problem);

} // namespace mgc::schedule
