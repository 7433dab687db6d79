// The row "auto". In: the times of tasks and messages and a cap on live activations (Problem). Out: the fastest orders found.
#pragma once

#include "compiler/schedule/Schedule.h"

namespace mgc::schedule {

std::vector<Order> automatic(const Problem &problem);

// The most live activations of a stage, in chunks: the problem's memory, at least one per chunk.
int64_t capOf(const Problem &problem);

} // namespace mgc::schedule
