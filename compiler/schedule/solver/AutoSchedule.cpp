#include "compiler/schedule/solver/AutoSchedule.h"

#include "compiler/schedule/solver/ListScheduler.h"

#include <algorithm>
#include <cmath>

namespace mgc::schedule {

std::vector<Order> automatic(const Problem &problem) {
  const Shape &shape = problem.shape;
  TaskTimes times{problem.costs, problem.messageSeconds};
  if (times.chunks.empty())
    times.chunks.assign(shape.chunks(), ChunkCost());
  const double unit = double(std::min(shape.stages, shape.microbatches) * shape.virtualStages);
  ListRules rules;
  rules.cap = std::max(int64_t(std::floor(problem.memory * unit + 1e-6)), shape.virtualStages);
  return listSchedule(shape, times, rules).orders;
}

} // namespace mgc::schedule
