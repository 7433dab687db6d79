// A solution as a network for Match.h: every reduce and update is a meeting of all stages. The solution must
// outlive it.
#pragma once

#include "compiler/schedule/Schedule.h"
#include "test/plan/prove/Match.h"

namespace mgc::schedule {

inline Network networkOf(const Solution &solution) {
  Network network;
  std::vector<int64_t> &everyone = network.groups.emplace_back();
  for (size_t stage = 0; stage < solution.stages.size(); ++stage) {
    everyone.push_back(int64_t(stage));
    std::vector<NetworkStep> &steps = network.stages.emplace_back();
    for (const Step &step : solution.stages[stage].steps) {
      NetworkStep &out = steps.emplace_back(NetworkStep{
          NetworkStep::Kind(step.kind), step.peer, step.value, step.microbatch, step.bytes, &step.waits, {}, 0});
      bool isRun = step.kind == Step::Kind::run;
      out.ofGradients = isRun && step.task.kind == TaskKind::gradients;
      if (isRun && (step.task.kind == TaskKind::reduce || step.task.kind == TaskKind::update))
        out.meetings.push_back({0, std::string(nameOf(step.task.kind))});
    }
  }
  network.describe = [&solution](int64_t stage, int64_t step) { return toString(solution.stages[stage].steps[step]); };
  return network;
}

} // namespace mgc::schedule
