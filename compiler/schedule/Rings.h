// Memory of the buffers of one stage's schedule, as rings of plan::Ring: the place of a buffer follows from its kind, its
// chunk and its microbatch alone.
#pragma once

#include "compiler/schedule/Schedule.h"

namespace mgc::schedule {

// In: the stage's buffers with their lifetimes. Out: its rings, one per kind and chunk, each buffer's ring and offset, and
// the bytes of the area that holds them. `group`: microbatches that a schedule moves through its chunks together.
Status placeBuffers(StageSchedule &stage, int64_t group);

// The bytes of the area on the device, or of that on the host, if the buffers of chunk c have the sizes[c]: as placeBuffers places them,
// where chunks of the same size are those of `slots`.
// StageSchedule::areas.
std::vector<BufferArea> areasOf(const std::vector<KindSlots> &slots, const std::vector<Sizes> &sizes);
Result<int64_t> bytesOfSlots(const std::vector<KindSlots> &slots, const std::vector<Sizes> &sizes, bool onHost);

} // namespace mgc::schedule
