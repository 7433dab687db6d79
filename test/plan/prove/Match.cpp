// See Match.h.
#include "test/plan/prove/Match.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <fmt/format.h>
#include <map>

namespace mgc::schedule {
namespace {

using Kind = NetworkStep::Kind;

std::string place(const Network &network, int64_t stage, int64_t step) {
  return fmt::format("stage {} step {} ({})", stage, step, network.describe(stage, step));
}

// Steps of one ordered pair of stages, each end in list order.
struct Pair {
  std::vector<int64_t> sends, receives;
};
using Pairs = std::map<std::pair<int64_t, int64_t>, Pair>; // (source, target)

Pairs pairsOf(const Network &network) {
  Pairs pairs;
  for (int64_t stage = 0; stage < int64_t(network.stages.size()); ++stage)
    for (int64_t i = 0; i < int64_t(network.stages[stage].size()); ++i) {
      const NetworkStep &step = network.stages[stage][i];
      if (step.kind == Kind::send)
        pairs[{stage, step.peer}].sends.push_back(i);
      else if (step.kind == Kind::recv)
        pairs[{step.peer, stage}].receives.push_back(i);
    }
  return pairs;
}

void checkMeetings(const Network &network, Problems &problems) {
  for (size_t group = 0; group < network.groups.size(); ++group) {
    std::vector<std::string> first; // collectives of the group's first stage, in order
    for (int64_t stage : network.groups[group]) {
      std::vector<std::string> own;
      for (const NetworkStep &step : network.stages[stage])
        for (const NetworkStep::Meeting &meeting : step.meetings)
          if (meeting.group == int64_t(group))
            own.push_back(meeting.what);
      if (stage == network.groups[group][0])
        first = own;
      size_t same = std::mismatch(first.begin(), first.end(), own.begin(), own.end()).first - first.begin();
      if (same == first.size() && same == own.size())
        continue;
      problems.add("collective {} between stages: stage {} has {}, stage {} has {}", same, network.groups[group][0],
                   same < first.size() ? first[same] : "none", stage, same < own.size() ? own[same] : "none");
    }
  }
}

} // namespace

void checkMatching(const Network &network, Problems &problems) {
  for (const auto &[ends, pair] : pairsOf(network)) {
    auto [source, target] = ends;
    if (pair.sends.size() != pair.receives.size())
      problems.add("stage {} sends {} messages to stage {}, which receives {}", source, pair.sends.size(), target,
                   pair.receives.size());
    for (size_t k = 0; k < std::min(pair.sends.size(), pair.receives.size()); ++k) {
      const NetworkStep &send = network.stages[source][pair.sends[k]];
      const NetworkStep &recv = network.stages[target][pair.receives[k]];
      if (send.value == recv.value && send.microbatch == recv.microbatch && send.bytes == recv.bytes)
        continue;
      problems.add("{} with value {}, microbatch {}, {} bytes meets {} with value {}, microbatch {}, {} "
                   "bytes; they must agree",
                   place(network, source, pair.sends[k]), send.value, send.microbatch, send.bytes,
                   place(network, target, pair.receives[k]), recv.value, recv.microbatch, recv.bytes);
      break; // later messages are shifted
    }
  }
  checkMeetings(network, problems);
}

namespace {

class Player {
public:
  explicit Player(const Network &network) : network(network), stages(network.stages.size()) {
    for (size_t s = 0; s < stages.size(); ++s) {
      size_t count = network.stages[s].size();
      stages[s].partner.assign(count, -1);
      times.start.emplace_back(count, std::nan(""));
      times.end.emplace_back(count, std::nan(""));
    }
    for (const auto &[ends, pair] : pairsOf(network))
      for (size_t k = 0; k < std::min(pair.sends.size(), pair.receives.size()); ++k) {
        stages[ends.first].partner[pair.sends[k]] = pair.receives[k];
        stages[ends.second].partner[pair.receives[k]] = pair.sends[k];
      }
    for (const std::vector<int64_t> &group : network.groups)
      arrivals.emplace_back(group.size());
  }

  Times play(Problems &problems) {
    for (int64_t s = 0; s < int64_t(stages.size()); ++s)
      wake(s);
    while (!ready.empty()) {
      int64_t stage = ready.front();
      ready.pop_front();
      stages[stage].isReady = false;
      while (advance(stage))
        ;
    }
    reportStuck(problems);
    return std::move(times);
  }

private:
  struct Stage {
    int64_t next = 0;        // the step to issue
    size_t meeting = 0;      // next meeting of that step
    bool hasArrived = false; // at that meeting
    bool isReady = false;
    double clock = 0;                                     // when the compute stream is free
    double gradients = 0;                                 // when that of task gradients is
    std::vector<int64_t> partner;                         // by send or recv: the step of its peer
    std::map<std::pair<int64_t, Kind>, double> lastStart; // by stream of messages
    std::map<int64_t, size_t> met;                        // group -> meetings passed
  };

  void wake(int64_t stage) {
    if (stages[stage].isReady)
      return;
    stages[stage].isReady = true;
    ready.push_back(stage);
  }

  bool isDone(int64_t stage, int64_t step) const { return !std::isnan(times.end[stage][step]); }

  // The first wait of the stage's next step that is not done, or -1.
  int64_t openWait(int64_t stage) const {
    for (int64_t wait : *network.stages[stage][stages[stage].next].waits)
      if (!isDone(stage, wait))
        return wait;
    return -1;
  }

  // Issues one step if it can be.
  bool advance(int64_t s) {
    Stage &stage = stages[s];
    if (stage.next == int64_t(network.stages[s].size()))
      return false;
    const NetworkStep &step = network.stages[s][stage.next];
    if (openWait(s) >= 0)
      return false;
    double ready = 0;
    for (int64_t wait : *step.waits)
      ready = std::max(ready, times.end[s][wait]);
    if (step.kind == Kind::run ? !run(s, step, ready) : !post(s, step, ready))
      return false;
    ++stage.next;
    return true;
  }

  bool run(int64_t s, const NetworkStep &step, double ready) {
    Stage &stage = stages[s];
    if (step.ofGradients) { // meets nobody
      times.start[s][stage.next] = std::max(stage.gradients, ready);
      times.end[s][stage.next] = stage.gradients = times.start[s][stage.next] + step.seconds;
      return true;
    }
    stage.clock = std::max(stage.clock, ready);
    for (; stage.meeting < step.meetings.size(); ++stage.meeting)
      if (!meet(s, step.meetings[stage.meeting].group))
        return false;
    stage.meeting = 0;
    times.start[s][stage.next] = stage.clock; // its own work: what it spent waiting for the others is idle time
    times.end[s][stage.next] = stage.clock += step.seconds;
    return true;
  }

  // Whether all stages of the group have come to the meeting at which this stage now is.
  bool meet(int64_t s, int64_t group) {
    Stage &stage = stages[s];
    const std::vector<int64_t> &members = network.groups[group];
    if (!stage.hasArrived) {
      size_t own = std::find(members.begin(), members.end(), s) - members.begin();
      arrivals[group][own].push_back(stage.clock);
      stage.hasArrived = true;
      for (int64_t member : members)
        if (member != s)
          wake(member);
    }
    size_t &met = stage.met[group];
    double all = stage.clock;
    for (const std::vector<double> &each : arrivals[group]) {
      if (each.size() <= met)
        return false;
      all = std::max(all, each[met]);
    }
    stage.clock = all;
    stage.hasArrived = false;
    ++met;
    return true;
  }

  bool post(int64_t s, const NetworkStep &step, double ready) {
    Stage &stage = stages[s];
    double &last = stage.lastStart[{step.peer, step.kind}];
    times.start[s][stage.next] = last = std::max(last, ready);
    int64_t partner = stage.partner[stage.next];
    if (partner < 0 || std::isnan(times.start[step.peer][partner]))
      return true;
    double end = std::max(last, times.start[step.peer][partner]) + step.seconds;
    times.end[s][stage.next] = times.end[step.peer][partner] = end;
    wake(step.peer);
    return true;
  }

  // --- Diagnosis of a deadlock

  bool isStuck(int64_t s) const { return stages[s].next < int64_t(network.stages[s].size()); }

  // The stage that the stuck stage waits for (-1: none could help), and why.
  std::pair<int64_t, std::string> reason(int64_t s) const {
    const Stage &stage = stages[s];
    if (int64_t wait = openWait(s); wait >= 0) {
      const NetworkStep &message = network.stages[s][wait];
      int64_t partner = stage.partner[wait];
      std::string what =
          fmt::format("{} waits for its step {} ({})", place(network, s, stage.next), wait, network.describe(s, wait));
      if (partner < 0)
        return {-1, what + fmt::format(", which nothing on stage {} matches", message.peer)};
      return {message.peer, what + fmt::format(", which needs {}", place(network, message.peer, partner))};
    }
    int64_t group = network.stages[s][stage.next].meetings[stage.meeting].group;
    size_t met = stage.met.count(group) ? stage.met.at(group) : 0;
    for (size_t i = 0; i < network.groups[group].size(); ++i)
      if (arrivals[group][i].size() <= met) {
        int64_t member = network.groups[group][i];
        return {isStuck(member) ? member : -1, fmt::format("{} waits for stage {} to come to the same collective",
                                                           place(network, s, stage.next), member)};
      }
    return {-1, place(network, s, stage.next)};
  }

  void reportStuck(Problems &problems) const {
    int64_t stuck = -1;
    for (int64_t s = 0; s < int64_t(stages.size()); ++s) {
      if (isStuck(s))
        stuck = stuck < 0 ? s : stuck;
      for (int64_t i = 0; i < stages[s].next; ++i)
        if (network.stages[s][i].kind != Kind::run && stages[s].partner[i] < 0)
          problems.add("{} has no counterpart on stage {}", place(network, s, i), network.stages[s][i].peer);
    }
    if (stuck < 0)
      return;
    std::vector<bool> seen(stages.size());
    int64_t at = stuck; // follow who waits for whom into the cycle, or to the end of the chain
    while (at >= 0 && !seen[at]) {
      seen[at] = true;
      int64_t next = reason(at).first;
      if (next < 0)
        break;
      at = next;
    }
    std::string text = "deadlock:";
    std::fill(seen.begin(), seen.end(), false);
    for (; at >= 0 && !seen[at]; at = reason(at).first) {
      seen[at] = true;
      text += "\n  " + reason(at).second;
    }
    problems.add("{}", text);
  }

  const Network &network;
  std::vector<Stage> stages;
  std::vector<std::vector<std::vector<double>>> arrivals; // [group][member]: times of arrival
  std::deque<int64_t> ready;
  Times times;
};

} // namespace

Times play(const Network &network, Problems &problems) { return Player(network).play(problems); }

} // namespace mgc::schedule
