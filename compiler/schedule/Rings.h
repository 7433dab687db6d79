// Memory of the buffers of one stage's schedule, as rings of plan::Ring: the place of a buffer follows from its kind, its
// chunk and its microbatch alone.
#pragma once

#include "compiler/schedule/Schedule.h"

namespace mgc::schedule {

// In: the stage's buffers with their lifetimes. Out: its rings, one per kind and chunk, each buffer's ring and offset, and
// the bytes of the area that holds them. `group`: microbatches that a schedule moves through its chunks together.
Status placeBuffers(StageSchedule &stage, int64_t group);

} // namespace mgc::schedule
