// Delays of --inject-delays: they change when instructions run and nothing that is computed.
#pragma once

#include "runtime/exec/Engine.h"

#include <cstdint>
#include <functional>

namespace mgc {

// Sleeps before about one instruction in 16, up to half a millisecond; when, depends on the place and the seed alone.
std::function<Status(const ExecutionPlace &)> randomDelays(uint64_t seed);

} // namespace mgc
