// See Progress.h.
#include "plan/prove/Progress.h"

#include "plan/prove/Meetings.h"

#include <algorithm>
#include <deque>

namespace mgc::plan {

namespace {

using Kind = ScheduleStep::Kind;
constexpr int64_t kMostRounds = int64_t(1) << 20; // rounds simulated without finding a repeated state
constexpr size_t kStates = 64;                    // states kept for the comparison

// A step that was issued. Messages are numbered along their channel: an ordered pair of stages.
struct Issued {
  int64_t channel = -1, number = -1; // -1: a run
  int64_t item = 0;
};

struct Channel {
  int64_t sends = 0, receives = 0; // issued
};

struct Stage {
  const StagePlan *plan = nullptr;
  std::vector<Repeat> parts; // the list, cut in its repeats and what is between them
  size_t part = 0;
  int64_t iteration = 0, item = 0; // item: of the list
  std::deque<Issued> recent;       // as many as waits reach back
  size_t window = 1;
  size_t meeting = 0;      // next meeting of the run at `item`
  bool hasArrived = false; // the run waits at that meeting
  bool isDone() const { return part == parts.size(); }
  const ScheduleStep &step() const { return plan->schedule[item]; }
  int64_t microbatch() const { return step().microbatch + iteration * step().microbatchStride; }
};

class RoundPlayer {
public:
  RoundPlayer(const Plan &plan, const Meetings &meetings, Problems &problems)
      : plan_(plan), meetings_(meetings), problems_(problems), channels_(plan.stages.size() * plan.stages.size()),
        arrivals_(meetings.groups.size(), std::vector<int64_t>(plan.stages.size())), met_(arrivals_) {
    for (const StagePlan &stage : plan.stages)
      stages_.push_back(stageOf(stage));
  }

  void play() {
    for (int64_t round = 0; round < kMostRounds; ++round) {
      bool progress = false, isDone = true;
      for (size_t s = 0; s < stages_.size(); ++s) {
        progress |= playIteration(static_cast<int64_t>(s));
        isDone &= stages_[s].isDone();
      }
      if (isDone)
        return;
      if (!progress)
        return reportDeadlock();
      passOver();
    }
    problems_.add("the steps of the stages do not repeat themselves within {} rounds; fewer microbatches would do",
                  kMostRounds);
  }

private:
  static Stage stageOf(const StagePlan &plan) {
    Stage stage;
    stage.plan = &plan;
    int64_t item = 0;
    for (const Repeat &repeat : plan.repeats) {
      for (; item < repeat.begin; ++item)
        stage.parts.push_back({item, item + 1, 1});
      stage.parts.push_back(repeat);
      item = repeat.end;
    }
    for (; item < static_cast<int64_t>(plan.schedule.size()); ++item)
      stage.parts.push_back({item, item + 1, 1});
    for (const ScheduleStep &step : plan.schedule)
      for (int64_t wait : step.waits)
        stage.window = std::max(stage.window, static_cast<size_t>(wait));
    return stage;
  }

  int64_t channelOf(int64_t stage, const ScheduleStep &step) const {
    const int64_t peer = plan_.stages[stage].rings[step.ring].peer, stages = static_cast<int64_t>(stages_.size());
    return step.kind == Kind::send ? stage * stages + peer : peer * stages + stage;
  }

  // --- One stage

  // Until the iteration ends, or a step is held up; whether any step was issued.
  bool playIteration(int64_t s) {
    Stage &stage = stages_[s];
    bool progress = false;
    while (!stage.isDone()) {
      const size_t meeting = stage.meeting;
      const bool arrived = stage.hasArrived;
      if (!issue(s))
        return progress || stage.meeting != meeting || stage.hasArrived != arrived;
      progress = true;
      if (advance(stage))
        break;
    }
    return progress;
  }

  // Whether the iteration has ended.
  static bool advance(Stage &stage) {
    const Repeat &part = stage.parts[stage.part];
    if (++stage.item < part.end)
      return false;
    if (++stage.iteration == part.count)
      stage.iteration = 0, ++stage.part;
    if (!stage.isDone())
      stage.item = stage.parts[stage.part].begin;
    return true;
  }

  const Issued *openWait(const Stage &stage) const {
    for (int64_t wait : stage.step().waits) {
      const Issued &earlier = stage.recent[stage.recent.size() - static_cast<size_t>(wait)];
      if (earlier.channel >= 0 &&
          (channels_[earlier.channel].sends <= earlier.number || channels_[earlier.channel].receives <= earlier.number))
        return &earlier;
    }
    return nullptr;
  }

  bool issue(int64_t s) {
    Stage &stage = stages_[s];
    const ScheduleStep &step = stage.step();
    if (openWait(stage))
      return false;
    Issued issued{-1, -1, stage.item};
    if (step.kind != Kind::run) {
      issued.channel = channelOf(s, step);
      Channel &channel = channels_[issued.channel];
      issued.number = (step.kind == Kind::send ? channel.sends : channel.receives)++;
    } else if (!meetAll(s, meetings_.ofChunks[s][step.chunk])) {
      return false;
    }
    stage.recent.push_back(issued);
    if (stage.recent.size() > stage.window)
      stage.recent.pop_front();
    return true;
  }

  bool meetAll(int64_t s, const std::vector<int64_t> &groups) {
    Stage &stage = stages_[s];
    for (; stage.meeting < groups.size(); ++stage.meeting) {
      const int64_t group = groups[stage.meeting];
      if (!stage.hasArrived)
        ++arrivals_[group][s], stage.hasArrived = true;
      for (int64_t other : meetings_.groups[group])
        if (arrivals_[group][other] <= met_[group][s])
          return false;
      ++met_[group][s];
      stage.hasArrived = false;
    }
    stage.meeting = 0;
    return true;
  }

  // --- Rounds that repeat

  // The positions of all stages, and the messages in progress.
  std::vector<int64_t> state() const {
    std::vector<int64_t> numbers;
    for (const Stage &stage : stages_) {
      numbers.insert(numbers.end(), {static_cast<int64_t>(stage.part), stage.isDone() ? -1 : stage.item,
                                     static_cast<int64_t>(stage.meeting), stage.hasArrived,
                                     static_cast<int64_t>(stage.recent.size())});
      for (const Issued &issued : stage.recent)
        numbers.insert(numbers.end(),
                       {issued.channel, issued.channel < 0 ? 0 : issued.number - channels_[issued.channel].sends});
    }
    for (const Channel &channel : channels_)
      if (channel.sends + channel.receives > 0)
        numbers.push_back(channel.sends - channel.receives);
    return numbers;
  }
  std::vector<int64_t> iterations() const {
    std::vector<int64_t> numbers;
    for (const Stage &stage : stages_)
      numbers.push_back(stage.iteration);
    return numbers;
  }

  void passOver() {
    Seen now{state(), iterations(), channels_};
    const auto same = std::ranges::find(seen_, now.state, &Seen::state);
    if (same == seen_.end()) {
      seen_.push_back(std::move(now));
      if (seen_.size() > kStates)
        seen_.pop_front();
      return;
    }
    int64_t periods = INT64_MAX;
    for (size_t s = 0; s < stages_.size(); ++s)
      if (const int64_t by = now.iterations[s] - same->iterations[s]; by > 0)
        periods = std::min(periods, (stages_[s].parts[stages_[s].part].count - 1 - stages_[s].iteration) / by);
    if (periods > 0 && periods < INT64_MAX)
      skip(*same, now, periods);
    seen_.clear();
  }

  struct Seen {
    std::vector<int64_t> state, iterations;
    std::vector<Channel> channels;
  };

  void skip(const Seen &from, const Seen &to, int64_t periods) {
    for (size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].iteration += periods * (to.iterations[s] - from.iterations[s]);
      for (Issued &issued : stages_[s].recent)
        if (issued.channel >= 0)
          issued.number += periods * (to.channels[issued.channel].sends - from.channels[issued.channel].sends);
    }
    for (size_t c = 0; c < channels_.size(); ++c) {
      channels_[c].sends += periods * (to.channels[c].sends - from.channels[c].sends);
      channels_[c].receives += periods * (to.channels[c].receives - from.channels[c].receives);
    }
  }

  // --- Diagnosis of a deadlock

  std::string describe(int64_t s, int64_t item, int64_t iteration) const {
    const StagePlan &plan = plan_.stages[s];
    const ScheduleStep &step = plan.schedule[item];
    const std::string what = step.kind == Kind::run
                                 ? "run " + plan.chunks[step.chunk].name()
                                 : fmt::format("{} of '{}' {} stage {}", step.kind == Kind::send ? "send" : "recv",
                                               plan.rings[step.ring].name, step.kind == Kind::send ? "to" : "from",
                                               plan.rings[step.ring].peer);
    return fmt::format("stage {} schedule[{}], iteration {} ({})", s, item, iteration, what);
  }

  // The stage that a stuck stage waits for, and why.
  std::pair<int64_t, std::string> reason(int64_t s) const {
    const Stage &stage = stages_[s];
    const std::string here = describe(s, stage.item, stage.iteration);
    if (const Issued *wait = openWait(stage)) {
      const int64_t peer = plan_.stages[s].rings[plan_.stages[s].schedule[wait->item].ring].peer;
      const Stage &other = stages_[peer];
      return {peer,
              fmt::format("{} waits for its {}, whose other end {}", here, describe(s, wait->item, 0),
                          other.isDone() ? fmt::format("stage {} does not have", peer)
                                         : fmt::format("comes after {}", describe(peer, other.item, other.iteration)))};
    }
    const std::vector<int64_t> &groups = meetings_.ofChunks[s][stage.step().chunk];
    for (int64_t other :
         stage.meeting < groups.size() ? meetings_.groups[groups[stage.meeting]] : std::vector<int64_t>())
      if (arrivals_[groups[stage.meeting]][other] <= met_[groups[stage.meeting]][s])
        return {other, fmt::format("{} waits for stage {} to come to the same collective", here, other)};
    return {-1, here};
  }

  // Reports the chain of waits from a stuck stage on, into a cycle or to its end.
  void reportDeadlock() {
    const auto stuck = std::ranges::find_if(stages_, [](const Stage &stage) { return !stage.isDone(); });
    int64_t at = stuck - stages_.begin();
    std::vector<bool> seen(stages_.size());
    for (; at >= 0 && !seen[at] && !stages_[at].isDone(); at = reason(at).first)
      seen[at] = true;
    if (at < 0 || stages_[at].isDone())
      at = stuck - stages_.begin();
    std::string text = "deadlock:";
    std::fill(seen.begin(), seen.end(), false);
    for (; at >= 0 && !seen[at] && !stages_[at].isDone(); at = reason(at).first) {
      seen[at] = true;
      text += "\n  " + reason(at).second;
    }
    problems_.add("{}", text);
  }

  const Plan &plan_;
  const Meetings &meetings_;
  Problems &problems_;
  std::vector<Stage> stages_;
  std::vector<Channel> channels_;              // by source * stages + target
  std::vector<std::vector<int64_t>> arrivals_; // by group and stage: meetings reached
  std::vector<std::vector<int64_t>> met_;      // by group and stage: meetings passed
  std::deque<Seen> seen_;
};

} // namespace

void proveProgress(const Plan &plan, Problems &problems) {
  const size_t known = problems.count();
  const Meetings meetings = meetingsOf(plan, problems);
  if (problems.count() == known)
    RoundPlayer(plan, meetings, problems).play();
}

} // namespace mgc::plan
