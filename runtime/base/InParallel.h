// Independent pieces of work on several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

namespace mgc {

// Calls body(0) ... body(count - 1), on as many threads as this process has cores, and no more than `mostThreads`. Where the system
// has no more threads, on those that there are.
void forEachInParallel(int64_t count, const std::function<void(int64_t)> &body,
                       int64_t mostThreads = std::numeric_limits<int64_t>::max());

} // namespace mgc
