// See Simulation.h.
#include "test/plan/play/Simulation.h"

#include <algorithm>
#include <map>

namespace mgc::schedule {

namespace {

class Simulation {
public:
  explicit Simulation(const PlayLists &lists) : lists_(lists), stages_(lists.stages.size()) {
    result_.busy.resize(stages_.size());
    for (const PlayList &list : lists.stages) {
      StepTimes &times = result_.times.emplace_back();
      times.start.assign(list.steps.size(), std::nan(""));
      times.end = times.done = times.start;
    }
  }

  Simulated run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t stage = 0; stage < stages_.size(); ++stage)
        while (stages_[stage].next < lists_.stages[stage].steps.size() && advance(stage))
          progress = true;
    }
    for (const StepTimes &times : result_.times)
      for (double end : times.end)
        result_.makespan = std::max(result_.makespan, std::isnan(end) ? 0 : end);
    return std::move(result_);
  }

private:
  struct Stage {
    size_t next = 0;                                            // the step to issue
    double clock = 0, gradients = 0;                            // when its streams are free
    std::map<std::pair<int64_t, Step::Kind>, double> lastStart; // by stream of messages
    size_t met = 0;                                             // meetings passed
    bool hasArrived = false;                                    // at the next meeting
  };
  struct Meeting { // a collective of all stages
    size_t arrived = 0;
    double last = 0;
  };
  struct End { // one end of a message
    size_t step = 0;
    double start = 0;
  };
  struct Way { // from one stage to another: the k-th send meets the k-th receive
    std::vector<End> sends, receives;
  };

  // NaN: something that it waits for is not done.
  double readyTime(size_t stage, const PlayStep &step) const {
    double ready = 0;
    for (int64_t wait : step.waits) {
      const double end = result_.times[stage].done[stages_[stage].next - size_t(wait)];
      if (std::isnan(end))
        return end;
      ready = std::max(ready, end);
    }
    return ready;
  }

  bool advance(size_t stage) {
    const PlayStep &step = lists_.stages[stage].steps[stages_[stage].next];
    const double ready = readyTime(stage, step);
    if (std::isnan(ready) || (step.kind == Step::Kind::run ? !run(stage, step, ready) : !post(stage, step, ready)))
      return false;
    ++stages_[stage].next;
    return true;
  }

  bool run(size_t s, const PlayStep &step, double ready) {
    Stage &stage = stages_[s];
    double &clock = step.isOfGradients() ? stage.gradients : stage.clock;
    clock = std::max(clock, ready);
    if (!step.meetings.empty() && !meet(stage))
      return false;
    StepTimes &times = result_.times[s];
    times.start[stage.next] = clock;
    times.end[stage.next] = times.done[stage.next] = clock += step.seconds;
    if (step.isSecondOfPair())
      times.done[stage.next - 1] = clock;
    result_.busy[s] += step.isOnCompute() ? step.seconds : 0;
    return true;
  }

  // Whether all stages have come.
  bool meet(Stage &stage) {
    meetings_.resize(std::max(meetings_.size(), stage.met + 1));
    Meeting &meeting = meetings_[stage.met];
    if (!std::exchange(stage.hasArrived, true))
      meeting = {meeting.arrived + 1, std::max(meeting.last, stage.clock)};
    if (meeting.arrived < stages_.size())
      return false;
    stage.clock = meeting.last;
    stage.hasArrived = false;
    ++stage.met;
    return true;
  }

  bool post(size_t s, const PlayStep &step, double ready) {
    Stage &stage = stages_[s];
    double &last = stage.lastStart[{step.peer, step.kind}];
    last = std::max(last, ready);
    result_.times[s].start[stage.next] = last;
    const bool isSend = step.kind == Step::Kind::send;
    Way &way = ways_[isSend ? std::pair(int64_t(s), step.peer) : std::pair(step.peer, int64_t(s))];
    std::vector<End> &mine = isSend ? way.sends : way.receives, &others = isSend ? way.receives : way.sends;
    mine.push_back({stage.next, last});
    if (others.size() < mine.size())
      return true;
    const End &other = others[mine.size() - 1];
    const double end = std::max(last, other.start) + step.seconds;
    for (auto [times, index] :
         {std::pair(&result_.times[s], stage.next), std::pair(&result_.times[step.peer], other.step)})
      times->end[index] = times->done[index] = end;
    return true;
  }

  const PlayLists &lists_;
  std::vector<Stage> stages_;
  std::vector<Meeting> meetings_;
  std::map<std::pair<int64_t, int64_t>, Way> ways_; // (source, target)
  Simulated result_;
};

} // namespace

Simulated simulate(const PlayLists &lists) { return Simulation(lists).run(); }

} // namespace mgc::schedule
