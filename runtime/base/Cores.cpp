#include "runtime/base/Cores.h"

#include <algorithm>
#include <fstream>
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

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  return "unknown processor";
}

int threadsOfRank(size_t cores, int64_t ranks) {
  return std::max(1, static_cast<int>(static_cast<int64_t>(cores) / ranks));
}

std::span<const int> shareOf(std::span<const int> cores, int64_t index, int64_t parts) {
  const auto count = static_cast<int64_t>(cores.size());
  const int64_t begin = count * index / parts;
  return cores.subspan(begin, count * (index + 1) / parts - begin);
}

void stayOn(std::span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores)
    if (core < CPU_SETSIZE)
      CPU_SET(core, &set);
  if (CPU_COUNT(&set) > 0)
    (void)sched_setaffinity(0, sizeof set, &set);
}

} // namespace mgc
