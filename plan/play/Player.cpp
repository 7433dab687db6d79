// See Player.h.
#include "plan/play/Player.h"

#include "plan/play/Steady.h"

#include <algorithm>
#include <numeric>

namespace mgc::schedule {

namespace {

// Seconds as whole multiples of a power of two.
class TickClock {
public:
  explicit TickClock(const PlayLists &lists) {
    double all = 0;
    for (const PlayList &list : lists.stages)
      for (const plan::Repeat &part : partsOf(list))
        for (int64_t item = part.begin; item < part.end; ++item)
          all += list.steps[item].seconds * double(part.count);
    if (all > 0 && std::isfinite(all))
      exponent_ = 61 - std::ilogb(all) - 1;
  }
  Ticks ticksOf(double seconds) const {
    return std::isfinite(seconds) ? std::llround(std::ldexp(seconds, exponent_)) : 0;
  }
  double secondsOf(Ticks ticks) const { return std::ldexp(double(ticks), -exponent_); }

private:
  int exponent_ = 0;
};

class ListPlayer {
public:
  explicit ListPlayer(const PlayLists &lists) : lists_(lists), clock_(lists), items_(lists.stages.size()) {
    for (const std::vector<int64_t> &members : lists.groups)
      state_.groups.push_back(
          {members, std::vector<int64_t>(lists.stages.size()), std::vector<int64_t>(lists.stages.size()), {}});
    std::map<std::pair<int64_t, int64_t>, int64_t> channels;
    for (size_t s = 0; s < lists.stages.size(); ++s)
      addStage(int64_t(s), channels);
  }

  Played play(int64_t mostRounds) {
    SteadyRounds steady;
    Played played;
    for (; playRound(); ++played.rounds) {
      if (played.rounds == mostRounds) {
        played.endsInTime = false;
        break;
      }
      steady.passOver(state_);
    }
    played.makespan = clock_.secondsOf(state_.end);
    for (size_t s = 0; s < state_.stages.size(); ++s)
      played.busy.push_back(busyOf(s));
    if (played.endsInTime && !std::ranges::all_of(state_.stages, &StageState::isDone))
      for (size_t s = 0; s < state_.stages.size(); ++s)
        played.stuck.push_back(heldStage(s));
    return played;
  }

  std::vector<StepTimes> timesOfSteps(double until) {
    until_ = until;
    times_.resize(state_.stages.size());
    while (playRound())
      ;
    return std::move(times_);
  }

private:
  // A step of the list, as far as it is known before it is played.
  struct Item {
    Ticks ticks = 0;
    int64_t channel = -1; // send, recv
    size_t lane = 0;      // send, recv
  };

  void addStage(int64_t s, std::map<std::pair<int64_t, int64_t>, int64_t> &channels) {
    const PlayList &list = lists_.stages[s];
    StageState &stage = state_.stages.emplace_back();
    std::map<std::pair<int64_t, Step::Kind>, size_t> lanes;
    for (const PlayStep &step : list.steps) {
      Item &item = items_[s].emplace_back(Item{clock_.ticksOf(step.seconds)});
      for (int64_t wait : step.waits)
        stage.window = std::max(stage.window, static_cast<size_t>(wait));
      if (step.kind == Step::Kind::run)
        continue;
      const std::pair ends = step.kind == Step::Kind::send ? std::pair(s, step.peer) : std::pair(step.peer, s);
      const auto [channel, isNew] = channels.try_emplace(ends, std::ssize(state_.channels));
      if (isNew)
        state_.channels.push_back({ends.first, ends.second});
      item.channel = channel->second;
      item.lane = lanes.try_emplace({step.peer, step.kind}, lanes.size()).first->second;
    }
    stage.starts.resize(lanes.size());
    for (const plan::Repeat &part : partsOf(list))
      describe(stage.parts.emplace_back(ListPart{part}), list, items_[s]);
    if (!stage.isDone())
      stage.item = stage.parts.front().steps.begin;
  }

  static void describe(ListPart &part, const PlayList &list, const std::vector<Item> &items) {
    for (int64_t i = part.steps.begin; i < part.steps.end; ++i) {
      const PlayStep &step = list.steps[i];
      part.usesCompute |= step.isOnCompute();
      part.usesGradients |= step.isOfGradients();
      if (step.kind != Step::Kind::run && std::ranges::find(part.lanes, items[i].lane) == part.lanes.end())
        part.lanes.push_back(items[i].lane);
      for (int64_t wait : step.waits)
        part.window = std::max(part.window, static_cast<size_t>(wait));
    }
  }

  double busyOf(size_t s) const {
    double ticks = 0;
    for (const ListPart &part : state_.stages[s].parts)
      for (int64_t item = part.steps.begin; item < part.steps.end; ++item)
        if (lists_.stages[s].steps[item].isOnCompute())
          ticks += double(items_[s][item].ticks) * double(part.steps.count);
    return clock_.secondsOf(1) * ticks;
  }

  // --- Rounds

  // Whether anything has happened.
  bool playRound() {
    state_.roundEnd = 0;
    bool hasProgress = false;
    for (size_t s = 0; s < state_.stages.size(); ++s)
      hasProgress |= playIteration(s);
    state_.end = std::max(state_.end, state_.roundEnd);
    return hasProgress;
  }

  // Until the iteration ends, or a step is held up; whether anything has happened.
  bool playIteration(size_t s) {
    StageState &stage = state_.stages[s];
    bool hasProgress = false;
    while (!stage.isDone()) {
      const size_t meeting = stage.meeting;
      const bool hadArrived = stage.hasArrived;
      if (!issue(s))
        return hasProgress || stage.meeting != meeting || stage.hasArrived != hadArrived;
      hasProgress = true;
      if (advance(stage))
        break;
    }
    return hasProgress;
  }

  // Whether the iteration has ended.
  static bool advance(StageState &stage) {
    const plan::Repeat &part = stage.parts[stage.part].steps;
    if (++stage.item < part.end)
      return false;
    if (++stage.iteration == part.count) {
      stage.iteration = 0, ++stage.part;
      stage.beforePart = stage.issued;
    }
    if (!stage.isDone())
      stage.item = stage.parts[stage.part].steps.begin;
    return true;
  }

  // --- One step

  const PlayStep &stepOf(size_t s) const { return lists_.stages[s].steps[state_.stages[s].item]; }
  const Item &itemOf(size_t s) const { return items_[s][state_.stages[s].item]; }

  const IssuedStep *openWait(size_t s) const {
    const std::deque<IssuedStep> &recent = state_.stages[s].recent;
    for (int64_t wait : stepOf(s).waits)
      if (const IssuedStep &earlier = recent[recent.size() - static_cast<size_t>(wait)]; earlier.pending >= 0)
        return &earlier;
    return nullptr;
  }

  bool issue(size_t s) {
    if (openWait(s))
      return false;
    const std::deque<IssuedStep> &recent = state_.stages[s].recent;
    Ticks ready = 0;
    for (int64_t wait : stepOf(s).waits)
      ready = std::max(ready, recent[recent.size() - static_cast<size_t>(wait)].done);
    return stepOf(s).kind == Step::Kind::run ? run(s, ready) : post(s, ready);
  }

  bool run(size_t s, Ticks ready) {
    StageState &stage = state_.stages[s];
    const PlayStep &step = stepOf(s);
    Ticks &free = step.isOfGradients() ? stage.gradients : stage.compute;
    free = std::max(free, ready);
    if (clock_.secondsOf(free) >= until_ || !meetAll(s, step.meetings, free))
      return false;
    const Ticks start = free;
    free += itemOf(s).ticks;
    push(s, -1, start);
    finish(s, stage.issued - 1, free);
    if (step.isSecondOfPair()) {
      stage.recent[stage.recent.size() - std::min<size_t>(2, stage.recent.size())].done = free;
      if (!times_.empty())
        times_[s].done[stage.issued - 2] = clock_.secondsOf(free);
    }
    return true;
  }

  bool meetAll(size_t s, const std::vector<int64_t> &groups, Ticks &free) {
    StageState &stage = state_.stages[s];
    for (; stage.meeting < groups.size(); ++stage.meeting)
      if (!meet(s, state_.groups[groups[stage.meeting]], free))
        return false;
    stage.meeting = 0;
    return true;
  }

  // Whether all have come.
  bool meet(size_t s, MeetingGroup &group, Ticks &free) {
    StageState &stage = state_.stages[s];
    const int64_t number = group.met[s];
    if (!std::exchange(stage.hasArrived, true)) {
      ++group.arrived[s];
      Ticks &last = group.last[number];
      last = std::max(last, free);
    }
    if (std::ranges::any_of(group.members, [&](int64_t other) { return group.arrived[other] <= number; }))
      return false;
    free = group.last[number];
    stage.hasArrived = false;
    ++group.met[s];
    if (std::ranges::all_of(group.members, [&](int64_t other) { return group.met[other] > number; }))
      group.last.erase(number);
    return true;
  }

  bool post(size_t s, Ticks ready) {
    StageState &stage = state_.stages[s];
    const Item &item = itemOf(s);
    const bool isSend = stepOf(s).kind == Step::Kind::send;
    Ticks &start = stage.starts[item.lane];
    start = std::max(start, ready);
    push(s, item.channel, start);
    MessageChannel &channel = state_.channels[item.channel];
    ++channel.posts;
    if (channel.open.empty())
      channel.areSends = isSend;
    if (channel.areSends == isSend) {
      channel.open.push_back({stage.issued - 1, start});
      return true;
    }
    const Posted other = channel.open.front();
    channel.open.pop_front();
    const Ticks end = std::max(start, other.start) + item.ticks;
    finish(s, stage.issued - 1, end);
    finish(static_cast<size_t>(stepOf(s).peer), other.step, end);
    return true;
  }

  void push(size_t s, int64_t pending, Ticks start) {
    StageState &stage = state_.stages[s];
    stage.recent.push_back({stage.item, pending, 0});
    if (stage.recent.size() > stage.window)
      stage.recent.pop_front();
    ++stage.issued;
    if (times_.empty())
      return;
    times_[s].start.push_back(clock_.secondsOf(start));
    times_[s].end.push_back(std::nan(""));
    times_[s].done.push_back(std::nan(""));
  }

  void finish(size_t s, int64_t number, Ticks end) {
    StageState &stage = state_.stages[s];
    state_.roundEnd = std::max(state_.roundEnd, end);
    if (const int64_t back = stage.issued - number; back <= std::ssize(stage.recent)) {
      IssuedStep &issued = stage.recent[stage.recent.size() - static_cast<size_t>(back)];
      issued.pending = -1, issued.done = end;
    }
    if (!times_.empty())
      times_[s].end[number] = times_[s].done[number] = clock_.secondsOf(end);
  }

  // --- Stages that cannot go on

  HeldStage heldStage(size_t s) const {
    const StageState &stage = state_.stages[s];
    HeldStage held{stage.item, stage.iteration};
    held.isDone = stage.isDone();
    if (held.isDone)
      return held;
    if (const IssuedStep *wait = openWait(s)) {
      held.wait = wait->item;
      held.waitsFor = lists_.stages[s].steps[wait->item].peer;
      return held;
    }
    const std::vector<int64_t> &meetings = stepOf(s).meetings;
    if (stage.meeting == meetings.size())
      return held;
    held.group = meetings[stage.meeting];
    const MeetingGroup &group = state_.groups[held.group];
    const auto missing =
        std::ranges::find_if(group.members, [&](int64_t other) { return group.arrived[other] <= group.met[s]; });
    held.waitsFor = missing == group.members.end() ? -1 : *missing;
    return held;
  }

  const PlayLists &lists_;
  const TickClock clock_;
  std::vector<std::vector<Item>> items_; // by stage and step of the list
  PlayState state_;
  double until_ = INFINITY;
  std::vector<StepTimes> times_; // by stage; empty: nobody asks
};

} // namespace

Played play(const PlayLists &lists, int64_t mostRounds) { return ListPlayer(lists).play(mostRounds); }

std::vector<StepTimes> timesOfSteps(const PlayLists &lists, double until) {
  return ListPlayer(lists).timesOfSteps(until);
}

} // namespace mgc::schedule
