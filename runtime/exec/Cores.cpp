#include "runtime/exec/Cores.h"

#include <algorithm>
#include <sched.h>
#include <thread>

namespace mgc {

std::vector<int> availableCores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set))
        cores.push_back(core);
  for (unsigned core = 0; cores.empty() && core < std::max(1u, std::thread::hardware_concurrency()); ++core)
    cores.push_back(static_cast<int>(core)); // more cores than the set has room for
  return cores;
}

} // namespace mgc
