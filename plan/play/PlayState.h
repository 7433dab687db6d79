// Where the stages stand while their lists are played.
#pragma once

#include "plan/play/PlayLists.h"

#include <deque>
#include <map>

namespace mgc::schedule {

using Ticks = int64_t;

// Steps of a list that run `steps.count` times before those behind them, and what they read and write of StageState.
struct ListPart {
  plan::Repeat steps;
  size_t window = 0; // as far back as their waits reach
  bool usesCompute = false, usesGradients = false;
  std::vector<size_t> lanes; // StageState::starts
};

struct IssuedStep {
  int64_t item = 0;
  int64_t pending = -1; // the channel of a message whose other end has not been issued; -1: `done` is known
  Ticks done = 0;
};

struct StageState {
  std::vector<ListPart> parts;
  size_t part = 0;
  int64_t iteration = 0, item = 0;    // item: of the list
  int64_t issued = 0, beforePart = 0; // steps so far, and before the part began
  size_t window = 1;                  // as far back as any wait reaches
  std::deque<IssuedStep> recent;      // as many steps at most, the last at the end
  Ticks compute = 0, gradients = 0;   // when these streams are free
  std::vector<Ticks> starts;          // by lane of messages, the last start
  size_t meeting = 0;                 // next meeting of the run at `item`
  bool hasArrived = false;            // the run waits at that meeting
  bool isDone() const { return part == parts.size(); }
};

// One end of a message whose other end has not been issued.
struct Posted {
  int64_t step = 0; // number in its stage, with repeats unrolled
  Ticks start = 0;
};

// From one stage to another: the k-th send meets the k-th receive.
struct MessageChannel {
  int64_t source = 0, target = 0;
  int64_t posts = 0; // ends so far
  bool areSends = false;
  std::deque<Posted> open; // all of one end
  int64_t poster() const { return areSends ? source : target; }
};

struct MeetingGroup {
  std::vector<int64_t> members;
  std::vector<int64_t> arrived, met; // by stage: meetings that it has come to, and passed
  std::map<int64_t, Ticks> last;     // by number of the meeting, while some member has not passed it: the last arrival
};

struct PlayState {
  std::vector<StageState> stages;
  std::vector<MessageChannel> channels;
  std::vector<MeetingGroup> groups;
  Ticks end = 0, roundEnd = 0; // the last end of a step, of all and of the round
};

} // namespace mgc::schedule
