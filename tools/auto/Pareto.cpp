// See Pareto.h.
#include "tools/auto/Pareto.h"

namespace mgc::tools {

ParetoRows paretoRows(const LayoutSearch &search, const CompileFlags &flags, const ProvedLayout &fastest) {
  constexpr double kNextShare = 0.9; // memory of a row over that of the row before
  ParetoRows pareto{{fastest}, 0};
  while (pareto.layouts.back().problem.empty()) {
    pareto.tooLittle = static_cast<int64_t>(kNextShare * double(pareto.layouts.back().bytes));
    const LayoutSearch smaller = search.within(pareto.tooLittle);
    const planner::FoundLayouts found = smaller.fastest(smaller.given(), 1);
    if (found.answers.empty())
      break;
    pareto.add(prove(smaller, flags, found.answers.front()).layout);
  }
  return pareto;
}

} // namespace mgc::tools
