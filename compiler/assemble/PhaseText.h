// The text that `mgc compile --compile-to=schedule` and `--compile-to=memory` print, for people and tests.
#pragma once

#include "compiler/assemble/Decisions.h"

namespace mgc {

// stage 0: 21 steps, 8192 bytes for activations
//   4 times, i = 0 ..
//     run forward.0 microbatch 0 + i
//     send output.0 microbatch 0 + i -> stage 1, 4096 bytes, waits 1 back
std::string scheduleText(const Decisions &decisions);

// stage 0: 24576 bytes, 24000 at least
//   parameters: 4096 bytes at 0
//     bucket0.value at 0
// function layer.forward: frame of 1024 bytes, 1024 at least
//   %0: 512 bytes at 0
//   %1: 512 bytes at 0, in place
std::string memoryText(const Decisions &decisions);

} // namespace mgc
