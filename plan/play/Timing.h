// The cost of a schedule, and its picture. In: a solution and the seconds of each task. Out: makespan, idle time, text.
#pragma once

#include "plan/play/Solution.h"

#include <map>

namespace mgc::schedule {

struct Costs {
  std::vector<ChunkCost> chunks; // by global chunk; empty: ChunkCost() everywhere
  double begin = 0, reduce = 0, update = 0;
  double messageLatency = 0, secondsPerByte = 0;
  // Seconds of two tasks of these global chunks that run as a pair, first and second; the sum where there is none.
  using Pair = std::array<std::pair<TaskKind, int64_t>, 2>;
  std::map<Pair, double> pairs = {};
  // Seconds of a task of a global chunk that is first (ScheduledTask); as long as others where there is none.
  std::map<std::pair<TaskKind, int64_t>, double> firsts = {};
};
double Costs::*stepCostOf(TaskKind kind); // the field of a task of the step

struct StageTiming {
  double busy = 0;                // seconds in runs
  double idle = 0;                // fraction of the makespan
  std::vector<double> start, end; // by step; NaN when it never happens
  std::vector<double> done;       // when who waits for it may start: of a run of a pair when both end
  std::vector<bool> isRun;        // by step: whether it occupies the compute stream
};

struct Timing {
  double makespan = 0;
  double idle = 0; // fraction of makespan x stages: the pipeline's bubble
  std::vector<StageTiming> stages;
};

// Runs start when the run before them and their waits are done; a message when both ends have started it. The time of a pair
// is shared out between its runs, one after the other, as they would take it alone.
// The solution must be a sound one, as those of generate() are.
Timing simulate(const Solution &solution, const Costs &costs = {});

// One row per stage, time in columns: F forward, B backward, I input, W weight, each with its microbatch; Z R U are
// begin, reduce and update where they take time. A task of several time units is followed by dots, idle time is blank.
// Chunks of a stage are told apart by letters: F0a F0b. Rows longer than maxColumns end in "...".
std::string draw(const Solution &solution, const Costs &costs = {}, int64_t maxColumns = 200);

} // namespace mgc::schedule
