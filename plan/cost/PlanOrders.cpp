// See PlanOrders.h.
#include "plan/cost/PlanOrders.h"

#include "plan/Expand.h"
#include "plan/play/PlanLists.h"

namespace mgc::cost {

using plan::ScheduleStep;

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
