// The bytes of a ring that messages carry. Values in a message begin at multiples of kAlignment, and nobody writes or reads the
// padding between them: two values of 60 bytes are a message of 124, with 4 bytes of padding.
#pragma once

#include "plan/prove/ChunkFlow.h"

namespace mgc::plan {

// All bytes of the ring but padding: what lies between the end of bytes that runs of its stage write, where it is sent, or read,
// where it is received, and the next multiple of kAlignment, if they go on there.
ByteSet carriedBytes(const Plan &plan, int64_t stage, int64_t ring, Flows &flows);

// Runs read no bytes of a value that is received but those that runs of the stage that sends it write. In: a plan whose sends
// and receives match.
void proveCarried(const Plan &plan, Flows &flows, Problems &problems);

} // namespace mgc::plan
