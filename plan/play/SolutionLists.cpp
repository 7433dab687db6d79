// See SolutionLists.h.
#include "plan/play/SolutionLists.h"

#include <numeric>

namespace mgc::schedule {

namespace {

class SolutionLister {
public:
  SolutionLister(const Solution &solution, const Costs &costs, int64_t stage)
      : shape_(solution.shape), costs_(costs), stage_(stage), steps_(solution.stages[stage].steps) {
    for (const Step &step : steps_)
      if (step.kind == Step::Kind::run && step.task.part >= 0)
        ++parts_[keyOf(step.task)];
  }

  PlayList list() const {
    PlayList out;
    for (size_t i = 0; i < steps_.size(); ++i)
      out.steps.push_back(listed(int64_t(i)));
    return out;
  }

private:
  using Key = std::tuple<TaskKind, int64_t, int64_t>; // kind, chunk, microbatch
  static Key keyOf(const ScheduledTask &task) { return {task.kind, task.chunk, task.microbatch}; }

  PlayStep listed(int64_t index) const {
    const Step &step = steps_[index];
    PlayStep out{step.kind, step.task};
    out.peer = step.peer;
    out.seconds = secondsOf(step) * pairFactor(size_t(index));
    for (int64_t wait : step.waits)
      out.waits.push_back(index - wait);
    if (step.kind == Step::Kind::run && meetsAllStages(step.task.kind))
      out.meetings = {0};
    return out;
  }

  double secondsOf(const Step &step) const {
    if (step.kind != Step::Kind::run)
      return costs_.messageLatency + costs_.secondsPerByte * double(step.bytes);
    const double whole = secondsOf(step.task);
    return step.task.part < 0 ? whole : whole / double(parts_.at(keyOf(step.task)));
  }

  double secondsOf(const ScheduledTask &task) const {
    double ChunkCost::*field = costOf(task.kind);
    if (!field)
      return costs_.*stepCostOf(task.kind);
    const int64_t chunk = shape_.globalChunk(stage_, task.chunk);
    if (const auto first = costs_.firsts.find({task.kind, chunk}); task.first && first != costs_.firsts.end())
      return first->second;
    return (costs_.chunks.empty() ? ChunkCost() : costs_.chunks[chunk]).*field;
  }

  // By how much shorter or longer the runs of a pair are together than one after the other: a factor; 1 of a run that has no pair.
  double pairFactor(size_t index) const {
    const size_t second = isPaired(steps_[index]) ? index : index + 1;
    if (costs_.pairs.empty() || second == steps_.size() || !isPaired(steps_[second]))
      return 1;
    Costs::Pair pair;
    double alone = 0;
    for (size_t i = 0; i < 2; ++i) {
      const ScheduledTask &task = steps_[second - 1 + i].task;
      pair[i] = {task.kind, shape_.globalChunk(stage_, task.chunk)};
      alone += secondsOf(task);
    }
    const auto known = costs_.pairs.find(pair);
    return known == costs_.pairs.end() || alone <= 0 ? 1 : known->second / alone;
  }

  const Shape &shape_;
  const Costs &costs_;
  const int64_t stage_;
  const std::vector<Step> &steps_;
  std::map<Key, int64_t> parts_;
};

} // namespace

double Costs::*stepCostOf(TaskKind kind) {
  return kind == TaskKind::begin ? &Costs::begin : kind == TaskKind::reduce ? &Costs::reduce : &Costs::update;
}

PlayLists listsOf(const Solution &solution, const Costs &costs) {
  PlayLists lists;
  for (size_t stage = 0; stage < solution.stages.size(); ++stage)
    lists.stages.push_back(SolutionLister(solution, costs, int64_t(stage)).list());
  lists.groups.emplace_back(solution.stages.size());
  std::iota(lists.groups[0].begin(), lists.groups[0].end(), 0);
  return lists;
}

} // namespace mgc::schedule
