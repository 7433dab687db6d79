// See PlanOrders.h.
#include "plan/cost/PlanOrders.h"

#include "plan/Expand.h"
#include "plan/play/PlanLists.h"

#include <algorithm>

namespace mgc::cost {

using plan::ScheduleStep;

// Where chunks go round, the first stage has chunk `stages` and receives the activation of the one before it; in a V the last
// stage has both.
static bool isV(const plan::Plan &plan) {
  const int64_t stages = int64_t(plan.stages.size());
  if (stages < 2 || plan.virtualStages < 2)
    return false;
  const plan::StagePlan &first = plan.stages[0];
  return std::ranges::none_of(first.schedule, [&](const ScheduleStep &step) {
    return step.kind == ScheduleStep::Kind::recv &&
           first.rings[step.ring].value == schedule::activationValue(stages - 1);
  });
}

schedule::Shape shapeOf(const plan::Plan &plan) {
  return {int64_t(plan.stages.size()), plan.virtualStages, plan.microbatches,
          isV(plan) ? schedule::ChunkPlacement::v : schedule::ChunkPlacement::loop};
}

std::vector<schedule::Order> ordersOf(const plan::Plan &plan) {
  std::vector<schedule::Order> orders;
  for (const plan::StagePlan &stage : plan.stages) {
    schedule::Order &order = orders.emplace_back();
    plan::forEachRun(stage.schedule.size(), stage.repeats, [&](int64_t item, int64_t iteration) {
      const ScheduleStep &step = stage.schedule[item];
      if (step.kind != ScheduleStep::Kind::run || step.microbatch < 0)
        return;
      schedule::ScheduledTask task =
          schedule::taskOf(stage.chunks[step.chunk], step.microbatch + iteration * step.microbatchStride);
      task.paired = step.paired;
      task.first = false;
      if (order.empty() || order.back() != task)
        order.push_back(task);
    });
  }
  return orders;
}

} // namespace mgc::cost
