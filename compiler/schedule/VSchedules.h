// Schedules of two chunks per stage in a V: chunk 0 goes down the stages and chunk 1 comes back, so that the last stage turns
// without a message and the first holds the loss.
#pragma once

#include "compiler/schedule/Schedule.h"

namespace mgc::schedule {

// For ChunkPlacement::v with two virtual stages.
std::vector<Order> zeroBubbleV(const Shape &shape);
std::vector<Order> halfMemoryV(const Shape &shape);
std::vector<Order> dualPipeV(const Shape &shape);

} // namespace mgc::schedule
