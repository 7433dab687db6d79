// See PairTimes.h.
#include "planner/search/PairTimes.h"

#include "plan/cost/RunTime.h"

namespace mgc::planner {

using plan::Task;

PairTimes::Functions PairTimes::functionsOf(const ChunkLayout &chunk, Task task) const {
  Functions functions;
  for (const ChunkLayout::Call &call : chunk.callsOf(task))
    if (call.function && shape_.hasProgram(*call.function))
      functions.push_back(call.function);
  return functions;
}

// Buffers of calls lie apart: nothing that a call leaves behind for the next is in a collective that is in progress.
double PairTimes::secondsOf(const Functions &first, Task firstTask, const Functions &second, Task secondTask) const {
  plan::Plan plan;
  plan.mesh = cluster_.mesh;
  plan.target = cluster_.target;
  plan::StagePlan stage;
  std::map<const BlockFunction *, int64_t> programs;
  int64_t end = 0;
  const auto add = [&](const Functions &functions, Task task) {
    plan::Chunk &chunk = stage.chunks.emplace_back();
    chunk.task = task;
    for (const BlockFunction *function : functions) {
      const auto [program, isNew] = programs.try_emplace(function, std::ssize(plan.programs));
      if (isNew)
        plan.programs.push_back(*shape_.programOf(*function));
      plan::Call &call = chunk.calls.emplace_back();
      call.program = program->second;
      for (const int64_t bytes : plan.programs[size_t(call.program)].segmentBytes) {
        call.segments.push_back({-1, end});
        end += plan::aligned(bytes);
      }
    }
  };
  add(first, firstTask);
  add(second, secondTask);
  stage.bytes = end;
  return cost::RunTimes(cluster_, plan).secondsOfPair(stage, stage.chunks[0], stage.chunks[1]).all().seconds();
}

void PairTimes::add(const schedule::PeriodicSolution &solution,
                    const std::vector<const std::vector<ChunkLayout> *> &stages, schedule::Costs &costs) {
  for (size_t s = 0; s < stages.size(); ++s) {
    const std::vector<schedule::PeriodicStep> &steps = solution.stages[s].steps;
    for (size_t i = 1; i < steps.size(); ++i) {
      if (!schedule::isPaired(steps[i].step))
        continue;
      const schedule::ScheduledTask &first = steps[i - 1].step.task, &second = steps[i].step.task;
      const auto globalOf = [&](const schedule::ScheduledTask &task) {
        return solution.shape.globalChunk(int64_t(s), task.chunk);
      };
      const auto [cost, isNew] =
          costs.pairs.try_emplace({{{first.kind, globalOf(first)}, {second.kind, globalOf(second)}}});
      if (!isNew)
        continue;
      const Functions a = functionsOf((*stages[s])[size_t(first.chunk)], first.kind),
                      b = functionsOf((*stages[s])[size_t(second.chunk)], second.kind);
      const auto [known, isUnknown] = known_.try_emplace({a, b});
      if (isUnknown)
        known->second = secondsOf(a, first.kind, b, second.kind);
      cost->second = known->second;
    }
  }
}

} // namespace mgc::planner
