// See GradientTime.h.
#include "plan/cost/GradientTime.h"

#include "plan/cost/PlanWalk.h"
#include "plan/play/PlanLists.h"

#include <algorithm>

namespace mgc::cost {

using plan::Task;

std::vector<double> slowedByGradients(const plan::StagePlan &stage, const std::vector<RunTime> &chunks, double taken) {
  std::vector<double> slowed;
  const std::vector<double> parts = schedule::partsOfChunks(stage);
  double left = 0; // seconds of the stream
  forEachStep(stage, [&](const plan::ScheduleStep &step, int64_t runs) {
    double &more = slowed.emplace_back();
    if (step.kind != plan::ScheduleStep::Kind::run)
      return;
    const Task task = stage.chunks[step.chunk].task;
    const RunTime time = chunks[step.chunk] * (parts[slowed.size() - 1] * double(runs));
    if (task == Task::gradients)
      left += time.all().seconds();
    else if (!isPerMicrobatch(task))
      left = 0; // it waits for the stream
    else {
      const double along = std::min(left, (time.layers.products + time.layers.attention) / (1 - taken));
      more = along * taken / double(runs);
      left = std::max(0.0, left - time.all().seconds() - along * taken);
    }
  });
  return slowed;
}

} // namespace mgc::cost
