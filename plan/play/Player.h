// Plays the lists of all stages against each other. In: lists whose waits lie inside. Out: when the step ends, or which steps wait
// for each other.
//
// A stage issues its steps in list order; one whose waits are not done holds up all behind it. A run starts when the run before it
// on its stream and its waits are done, and all stages of its meetings have come; the time that it waits for them is idle. A
// message is under way when both ends have started it, each no earlier than the message before it of the same direction and peer.
//
// Time is counted in ticks, of which the sum of all seconds has 2^61 at most, so that rounding is far below 1e-9 of a step.
#pragma once

#include "plan/play/PlayLists.h"

#include <cmath>
#include <optional>

namespace mgc::schedule {

// Where a stage stands that cannot go on.
struct HeldStage {
  int64_t item = 0, iteration = 0; // step of the list
  int64_t wait = -1;               // step of the list, a message that is not done; -1: none
  int64_t group = -1;              // the meeting that it has come to; -1: none
  int64_t waitsFor = -1;           // a stage that has not come to the meeting, or the other end of the message
  bool isDone = false;             // its list has ended
};

struct Played {
  double makespan = 0;
  std::vector<double> busy;     // by stage: seconds in runs on the compute stream
  std::vector<HeldStage> stuck; // by stage; empty: all lists end
  int64_t rounds = 0;           // rounds that were played, and not passed over
  bool endsInTime = true;       // false: the lists were left after so many rounds as are allowed
  double waitingOf(size_t stage) const { return makespan - busy[stage]; }
};

// The stages run in rounds, in each of which a stage goes on to the end of the iteration of its repeat at most. Rounds that repeat
// others, but for a time by which everything is later, are added up and not played (Steady.h).
Played play(const PlayLists &lists, int64_t mostRounds = INT64_MAX);

// Times of the steps of a stage by their number with repeats unrolled; NaN: does not happen.
struct StepTimes {
  std::vector<double> start, end;
  std::vector<double> done; // when who waits for it may start: of a run of a pair when both end
};

// Every step is played, up to runs that start at `until` or later. A pair's runs follow one another.
std::vector<StepTimes> timesOfSteps(const PlayLists &lists, double until = INFINITY);

} // namespace mgc::schedule
