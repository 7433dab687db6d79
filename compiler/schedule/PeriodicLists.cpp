// See PeriodicLists.h.
#include "compiler/schedule/PeriodicLists.h"

namespace mgc::schedule {

PlayLists listsOf(const PeriodicSolution &solution, const Costs &costs) {
  // The steps as if there were no repeats; waits are distances on both sides.
  Solution flat{"", solution.shape, {}};
  for (const PeriodicStage &stage : solution.stages) {
    std::vector<Step> &steps = flat.stages.emplace_back().steps;
    for (const PeriodicStep &step : stage.steps) {
      steps.push_back(step.step);
      for (int64_t &wait : steps.back().waits)
        wait = std::ssize(steps) - 1 - wait;
    }
  }
  PlayLists lists = listsOf(flat, costs);
  for (size_t s = 0; s < lists.stages.size(); ++s) {
    const PeriodicStage &stage = solution.stages[s];
    lists.stages[s].repeats = stage.repeats;
    for (size_t i = 0; i < stage.steps.size(); ++i)
      lists.stages[s].steps[i].microbatchStride = stage.steps[i].microbatchStride;
  }
  return lists;
}

} // namespace mgc::schedule
