// The OpenMP runtime that oneDNN brings along, used directly: one pool of threads per rank for all library calls.
//   in:  a number of tasks and of threads
//   out: every task run once, by some thread
#pragma once

#include <cstdint>

namespace mgc {

// Sets how many threads library calls made by the calling thread may use. With 1 no pool exists, so nothing spins.
void setLibraryThreads(int threads);

// Calls body(task, lane) for each task in [0, tasks). They begin in this order, so a task may wait for one before
// it. At most min(threads, lanes) calls run at once; calls that run at the same time have different lanes in
// [0, lanes). The lane of a task varies from run to run. Library calls within the body use one thread.
// Allocates nothing: a step must not.
using ParallelBody = void (*)(const void *body, int64_t task, int64_t lane);
void parallelFor(int threads, int64_t lanes, int64_t tasks, ParallelBody call, const void *body);
template <typename Body> void parallelFor(int threads, int64_t lanes, int64_t tasks, const Body &body) {
  const ParallelBody call = [](const void *b, int64_t task, int64_t lane) {
    (*static_cast<const Body *>(b))(task, lane);
  };
  parallelFor(threads, lanes, tasks, call, &body);
}

} // namespace mgc
