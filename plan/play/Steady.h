// Finds rounds of a player that repeat, and passes over them. In: the state after each round.
//
// A state decides what comes after it, through sums and maxima of times alone: if all times that the stages read are later by
// the same time than some rounds ago, and all else is as it was, then the same rounds follow, later by that time again, until a
// repeat ends. Times are integers, so the comparison is exact.
#pragma once

#include "plan/play/PlayState.h"

#include <optional>

namespace mgc::schedule {

class SteadyRounds {
public:
  // Adds rounds that repeat earlier ones to the state, none where none are known to.
  void passOver(PlayState &state);

private:
  struct StageSnapshot {
    size_t part = 0, meeting = 0;
    int64_t iteration = 0, item = 0, issued = 0;
    bool hasArrived = false;
    std::vector<Ticks> times;     // all that steps of the part read or write
    std::vector<int64_t> pending; // IssuedStep::pending, of the part's window
  };
  struct ChannelSnapshot {
    int64_t posts = 0, poster = 0;  // poster: the stage of open ends
    size_t open = 0, openCount = 0; // in Snapshot::open
  };
  struct Snapshot {
    std::vector<StageSnapshot> stages;
    std::vector<ChannelSnapshot> channels;
    std::vector<Posted> open; // open ends of all channels
    std::vector<MeetingGroup> groups;
    Ticks roundEnd = 0;
  };
  // Compares two states: by how much the second is later.
  class Comparison;

  static StageSnapshot snapshotOf(const StageState &stage);
  static Snapshot snapshotOf(const PlayState &state);
  static bool skip(PlayState &state, const Snapshot &from, const Snapshot &to, Ticks period, Ticks periodEnd);

  std::vector<Snapshot> seen_; // since the last stage came to its part
  size_t parts_ = 0;           // sum over the stages
};

} // namespace mgc::schedule
