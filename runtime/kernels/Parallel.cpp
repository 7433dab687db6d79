// See Parallel.h.
#include "runtime/kernels/Parallel.h"

#include <algorithm>
#include <atomic>

// The stable interface of libgomp. Compilers other than GCC emit calls to their own OpenMP runtime, and two
// pools in one process would compete for the cores.
extern "C" {
void omp_set_num_threads(int threads);
int omp_get_thread_num();
void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// libgomp orders the work of oneDNN's own threads, where thread sanitizer does not see it.
extern "C" const char *__tsan_default_suppressions() { return "called_from_lib:libdnnl.so\n"; }
#endif
#endif

namespace mgc {

void setLibraryThreads(int threads) { omp_set_num_threads(std::max(threads, 1)); }

namespace {
struct Team {
  ParallelBody call;
  const void *body;
  int64_t tasks;
  std::atomic<int64_t> next = 0, finished = 0;
};
using TeamPointer = std::atomic<Team *>;

// The pool orders memory at both ends, but thread sanitizer cannot see into it: the pointer's acquire and the
// release of `finished` say the same again.
void work(void *data) {
  Team &team = *static_cast<TeamPointer *>(data)->load(std::memory_order_acquire);
  const int64_t lane = omp_get_thread_num();
  for (int64_t task; (task = team.next.fetch_add(1, std::memory_order_relaxed)) < team.tasks;)
    team.call(team.body, task, lane);
  team.finished.fetch_add(1, std::memory_order_release);
}

void runTeam(unsigned width, Team &team) {
  static thread_local TeamPointer pointer = nullptr;
  Team *outer = pointer.exchange(&team, std::memory_order_release);
  GOMP_parallel(work, &pointer, width, 0);
  (void)team.finished.load(std::memory_order_acquire);
  pointer.store(outer, std::memory_order_relaxed);
}
} // namespace

void parallelFor(int threads, int64_t lanes, int64_t tasks, ParallelBody call, const void *body) {
  const int64_t width = std::min({static_cast<int64_t>(threads), lanes, tasks});
  if (width > 1) {
    Team team{call, body, tasks};
    runTeam(static_cast<unsigned>(width), team);
    return;
  }
  setLibraryThreads(1);
  for (int64_t task = 0; task < tasks; ++task)
    call(body, task, 0);
}

} // namespace mgc
