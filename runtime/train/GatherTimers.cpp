// See GatherTimers.h.
#include "runtime/train/GatherTimers.h"

#include <fmt/ranges.h>
#include <iterator>
#include <sstream>

namespace mgc {

Result<std::vector<std::vector<double>>> gatherTimers(Processes &processes, const std::vector<double> &own) {
  MGC_ASSIGN(all, processes.store().gather("timers", processes.rank(), processes.size(),
                                           fmt::format("{}", fmt::join(own, " ")), processes.deadline()));
  std::vector<std::vector<double>> seconds;
  for (const std::string &text : all) {
    std::istringstream numbers(text);
    seconds.emplace_back(std::istream_iterator<double>(numbers), std::istream_iterator<double>());
  }
  return seconds;
}

} // namespace mgc
