// Seconds of two chunks' runs that are a pair (plan::ScheduleStep::paired): a plan of the two alone, by plan/cost/RunTime.h.
#pragma once

#include "compiler/assemble/ChunkLayout.h"
#include "compiler/schedule/Periodic.h"
#include "plan/play/SolutionLists.h"
#include "planner/search/ShapeBlocks.h"

namespace mgc::planner {

class PairTimes {
public:
  PairTimes(const ShapeBlocks &shape, const cost::Cluster &cluster) : shape_(shape), cluster_(cluster) {}

  // Adds the pairs of the stages' lists. `stages`: chunks of each.
  void add(const schedule::PeriodicSolution &solution, const std::vector<const std::vector<ChunkLayout> *> &stages,
           schedule::Costs &costs);

private:
  // The blocks' functions that a run of the task calls.
  using Functions = std::vector<const BlockFunction *>;
  Functions functionsOf(const ChunkLayout &chunk, plan::Task task) const;
  double secondsOf(const Functions &first, plan::Task firstTask, const Functions &second, plan::Task secondTask) const;

  const ShapeBlocks &shape_;
  const cost::Cluster &cluster_;
  std::map<std::pair<Functions, Functions>, double> known_;
};

} // namespace mgc::planner
