// See PlanLists.h.
#include "plan/play/PlanLists.h"

#include <numeric>

namespace mgc::schedule {

using plan::Plan;
using plan::ScheduleStep;
using plan::StagePlan;

namespace {

using ChunkRun = std::pair<int64_t, int64_t>; // chunk, microbatch

bool isPart(const ScheduleStep &step) { return step.kind == ScheduleStep::Kind::run && step.callCount >= 0; }

class PlanLister {
public:
  PlanLister(const StagePlan &stage, int64_t number, const PlayCosts &costs)
      : stage_(stage), number_(number), costs_(costs), parts_(partsOfChunks(stage)) {}

  PlayList list() {
    std::map<ChunkRun, int64_t> part;
    PlayList out{{}, stage_.repeats};
    for (size_t i = 0; i < stage_.schedule.size(); ++i) {
      out.steps.push_back(listed(i));
      if (const ScheduleStep &step = stage_.schedule[i]; isPart(step))
        out.steps.back().task.part = part[{step.chunk, step.microbatch}]++;
    }
    return out;
  }

private:
  PlayStep listed(size_t index) const {
    const ScheduleStep &step = stage_.schedule[index];
    PlayStep out{Step::Kind(step.kind)};
    out.microbatchStride = step.microbatchStride;
    out.waits = step.waits;
    if (step.kind != ScheduleStep::Kind::run) {
      const plan::Ring &ring = stage_.rings[step.ring];
      out.peer = ring.peer;
      out.seconds = costs_.messageLatency + costs_.secondsPerByte * double(ring.bytes);
      return out;
    }
    out.task = taskOf(stage_.chunks[step.chunk], step.microbatch);
    out.task.paired = step.paired;
    out.seconds = costs_.chunks[number_][step.chunk] * parts_[index] * pairFactor(index) + longer(index);
    if (meetsAllStages(out.task.kind))
      out.meetings = {0};
    return out;
  }

  double longer(size_t index) const {
    const auto known = costs_.longer.find({number_, int64_t(index)});
    return known == costs_.longer.end() ? 0 : known->second;
  }

  // By how much shorter or longer the runs of a pair are together than one after the other: a factor; 1 of a run that has no pair.
  double pairFactor(size_t index) const {
    const std::vector<ScheduleStep> &steps = stage_.schedule;
    const size_t second = steps[index].paired ? index : index + 1;
    if (second == steps.size() || !steps[second].paired)
      return 1;
    const int64_t a = steps[second - 1].chunk, b = steps[second].chunk;
    const auto known = costs_.pairs.find({number_, a, b});
    const double alone = costs_.chunks[number_][a] + costs_.chunks[number_][b];
    return known == costs_.pairs.end() || alone <= 0 ? 1 : known->second / alone;
  }

  const StagePlan &stage_;
  const int64_t number_;
  const PlayCosts &costs_;
  const std::vector<double> parts_;
};

} // namespace

std::vector<double> partsOfChunks(const StagePlan &stage) {
  std::map<ChunkRun, int64_t> counts; // chunks that run in parts
  for (const ScheduleStep &step : stage.schedule)
    if (isPart(step))
      ++counts[{step.chunk, step.microbatch}];
  std::vector<double> parts;
  for (const ScheduleStep &step : stage.schedule)
    parts.push_back(isPart(step) ? 1 / double(counts.at({step.chunk, step.microbatch})) : 1);
  return parts;
}

Shape shapeOf(const Plan &plan) {
  return {std::ssize(plan.stages), plan.virtualStages, plan.microbatches, plan.placement};
}

ScheduledTask taskOf(const plan::Chunk &chunk, int64_t microbatch) {
  return {chunk.task, isPerVirtualStage(chunk.task) ? chunk.virtualStage : -1, microbatch, -1, false, chunk.first};
}

PlayLists listsOf(const Plan &plan, const PlayCosts &costs) {
  PlayLists lists;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    lists.stages.push_back(PlanLister(plan.stages[stage], int64_t(stage), costs).list());
  lists.groups.emplace_back(plan.stages.size());
  std::iota(lists.groups[0].begin(), lists.groups[0].end(), 0);
  return lists;
}

} // namespace mgc::schedule
