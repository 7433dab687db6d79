// See Steady.h.
#include "plan/play/Steady.h"

#include <algorithm>

namespace mgc::schedule {

namespace {

constexpr size_t kMostSnapshots = 256; // rounds without one that repeats another before all are played
constexpr size_t kMostWindow = 4096;   // steps that waits of a repeat reach back, for rounds to be compared

bool isComparable(const StageState &stage) { return stage.isDone() || stage.window <= kMostWindow; }

} // namespace

// --- Comparison of two states --------------------------------------------------------------------------------------

class SteadyRounds::Comparison {
public:
  // Nothing: the second does not follow from the first.
  static std::optional<Ticks> period(const Snapshot &from, const Snapshot &to) {
    Comparison comparison;
    return comparison.agree(from, to) ? comparison.period_ : std::nullopt;
  }

private:
  bool agree(const Snapshot &from, const Snapshot &to) {
    for (size_t s = 0; s < to.stages.size(); ++s)
      if (!agree(from.stages[s], to.stages[s]))
        return false;
    for (size_t c = 0; c < to.channels.size(); ++c)
      if (!agree(from, from.channels[c], to, to.channels[c]))
        return false;
    for (size_t g = 0; g < to.groups.size(); ++g)
      if (!agree(from.groups[g], to.groups[g]))
        return false;
    return true;
  }

  // The times of a stage that stands still are read by no one: what it has posted stands in channels and groups.
  bool agree(const StageSnapshot &from, const StageSnapshot &to) {
    if (from.part != to.part || from.item != to.item || from.meeting != to.meeting || from.hasArrived != to.hasArrived)
      return false;
    if (from.issued == to.issued)
      return true;
    if (from.pending != to.pending || from.times.size() != to.times.size())
      return false;
    for (size_t i = 0; i < to.times.size(); ++i)
      if (!isLater(from.times[i], to.times[i]))
        return false;
    return true;
  }

  bool agree(const Snapshot &before, const ChannelSnapshot &from, const Snapshot &now, const ChannelSnapshot &to) {
    if (from.posts == to.posts)
      return true;
    if (from.openCount != to.openCount || (to.openCount > 0 && from.poster != to.poster))
      return false;
    const int64_t by = now.stages[to.poster].issued - before.stages[to.poster].issued;
    for (size_t i = 0; i < to.openCount; ++i) {
      const Posted &a = before.open[from.open + i], &b = now.open[to.open + i];
      if (b.step - a.step != by || !isLater(a.start, b.start))
        return false;
    }
    return true;
  }

  bool agree(const MeetingGroup &from, const MeetingGroup &to) {
    if (from.arrived == to.arrived && from.met == to.met)
      return true;
    const int64_t by = to.arrived[to.members.front()] - from.arrived[to.members.front()];
    for (int64_t member : to.members)
      if (to.arrived[member] - from.arrived[member] != by || to.met[member] - from.met[member] != by)
        return false;
    return std::ranges::equal(from.last, to.last, [&](const auto &a, const auto &b) {
      return b.first - a.first == by && isLater(a.second, b.second);
    });
  }

  bool isLater(Ticks from, Ticks to) {
    if (!period_)
      period_ = to - from;
    return to - from == *period_;
  }

  std::optional<Ticks> period_;
};

SteadyRounds::StageSnapshot SteadyRounds::snapshotOf(const StageState &stage) {
  StageSnapshot out{stage.part, stage.meeting, stage.iteration, stage.item, stage.issued, stage.hasArrived, {}, {}};
  if (stage.isDone())
    return out;
  const ListPart &part = stage.parts[stage.part];
  if (part.usesCompute)
    out.times.push_back(stage.compute);
  if (part.usesGradients)
    out.times.push_back(stage.gradients);
  for (size_t lane : part.lanes)
    out.times.push_back(stage.starts[lane]);
  for (size_t back = 1; back <= std::min(part.window, stage.recent.size()); ++back) {
    const IssuedStep &issued = stage.recent[stage.recent.size() - back];
    out.pending.push_back(issued.pending);
    if (issued.pending < 0)
      out.times.push_back(issued.done);
  }
  return out;
}

SteadyRounds::Snapshot SteadyRounds::snapshotOf(const PlayState &state) {
  Snapshot out{.groups = state.groups, .roundEnd = state.roundEnd};
  for (const StageState &stage : state.stages)
    out.stages.push_back(snapshotOf(stage));
  for (const MessageChannel &channel : state.channels) {
    out.channels.push_back({channel.posts, channel.poster(), out.open.size(), channel.open.size()});
    out.open.insert(out.open.end(), channel.open.begin(), channel.open.end());
  }
  return out;
}

// --- Rounds that are passed over -----------------------------------------------------------------------------------

namespace {

struct StageSkip {
  int64_t periods = 0, steps = 0; // steps: of the stage in a period
  Ticks period = 0;
};

// The steps before the stage's next one, as they will be.
class SkippedWindow {
public:
  SkippedWindow(const std::vector<bool> &moved, const StageState &stage, StageSkip skip)
      : moved_(moved), stage_(stage), skip_(skip), inPart_(stage.issued - stage.beforePart),
        size_(std::min<int64_t>(std::ssize(stage.recent) + skip.periods * skip.steps, int64_t(stage.window))) {}

  // Nothing: too few steps of the part have been played.
  std::optional<std::deque<IssuedStep>> build() const {
    std::deque<IssuedStep> window;
    for (int64_t back = 1; back <= size_; ++back)
      if (const std::optional<IssuedStep> issued = at(back))
        window.push_front(*issued);
      else
        return std::nullopt;
    return window;
  }

private:
  const IssuedStep &now(int64_t back) const { return stage_.recent[stage_.recent.size() - static_cast<size_t>(back)]; }

  // A step that is known already, or else the last step before it of the same place in the period that is done.
  std::optional<IssuedStep> at(int64_t back) const {
    if (const int64_t played = back - skip_.periods * skip_.steps; played > 0)
      if (const IssuedStep &known = now(played); known.pending < 0 || !moved_[known.pending])
        return known;
    for (int64_t like = (back - 1) % skip_.steps + 1; like <= back; like += skip_.steps) {
      if (like > inPart_ || like > std::ssize(stage_.recent))
        return std::nullopt;
      IssuedStep issued = now(like);
      if (issued.pending >= 0 && like < back)
        continue;
      issued.done += skip_.period * (skip_.periods - (back - like) / skip_.steps);
      return issued;
    }
    return std::nullopt;
  }

  const std::vector<bool> &moved_; // by channel
  const StageState &stage_;
  StageSkip skip_;
  int64_t inPart_, size_;
};

} // namespace

bool SteadyRounds::skip(PlayState &state, const Snapshot &from, const Snapshot &to, Ticks period, Ticks periodEnd) {
  int64_t periods = INT64_MAX;
  for (size_t s = 0; s < state.stages.size(); ++s)
    if (const int64_t by = to.stages[s].iteration - from.stages[s].iteration; by > 0)
      periods = std::min(
          periods, (state.stages[s].parts[state.stages[s].part].steps.count - 1 - state.stages[s].iteration) / by);
  if (periods <= 0 || periods == INT64_MAX)
    return false;
  std::vector<bool> moved;
  for (size_t c = 0; c < state.channels.size(); ++c)
    moved.push_back(to.channels[c].posts != from.channels[c].posts);
  std::vector<std::optional<std::deque<IssuedStep>>> windows(state.stages.size());
  for (size_t s = 0; s < state.stages.size(); ++s)
    if (const int64_t steps = to.stages[s].issued - from.stages[s].issued; steps > 0) {
      windows[s] = SkippedWindow(moved, state.stages[s], {periods, steps, period}).build();
      if (!windows[s])
        return false;
    }
  const Ticks later = period * periods;
  for (size_t s = 0; s < state.stages.size(); ++s) {
    StageState &stage = state.stages[s];
    if (!windows[s])
      continue;
    const ListPart &part = stage.parts[stage.part];
    stage.iteration += periods * (to.stages[s].iteration - from.stages[s].iteration);
    stage.issued += periods * (to.stages[s].issued - from.stages[s].issued);
    stage.recent = *std::move(windows[s]);
    stage.compute += part.usesCompute ? later : 0;
    stage.gradients += part.usesGradients ? later : 0;
    for (size_t lane : part.lanes)
      stage.starts[lane] += later;
  }
  for (size_t c = 0; c < state.channels.size(); ++c)
    for (MessageChannel &channel = state.channels[c]; Posted &posted : channel.open)
      if (moved[c]) {
        posted.step += periods * (to.stages[channel.poster()].issued - from.stages[channel.poster()].issued);
        posted.start += later;
      }
  // The numbers of meetings matter in relation to each other alone.
  for (size_t g = 0; g < state.groups.size(); ++g)
    if (to.groups[g].arrived != from.groups[g].arrived)
      for (auto &[number, last] : state.groups[g].last)
        last += later;
  state.end = std::max(state.end, periodEnd + later);
  return true;
}

void SteadyRounds::passOver(PlayState &state) {
  size_t parts = 0;
  for (const StageState &stage : state.stages)
    parts += stage.part;
  if (parts != std::exchange(parts_, parts))
    return seen_.clear();
  if (seen_.size() == kMostSnapshots || !std::ranges::all_of(state.stages, isComparable))
    return;
  seen_.push_back(snapshotOf(state));
  const Snapshot &now = seen_.back();
  Ticks periodEnd = now.roundEnd;
  for (size_t before = seen_.size() - 1; before-- > 0;) {
    if (const std::optional<Ticks> period = Comparison::period(seen_[before], now);
        period && skip(state, seen_[before], now, *period, periodEnd))
      return seen_.clear();
    periodEnd = std::max(periodEnd, seen_[before].roundEnd);
  }
}

} // namespace mgc::schedule
