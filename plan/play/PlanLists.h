// The schedule of a plan as the player reads it. In: a plan that passed provePlan, and the seconds of its chunks.
#pragma once

#include "plan/Plan.h"
#include "plan/play/PlayLists.h"

#include <array>
#include <map>

namespace mgc::schedule {

struct PlayCosts {
  std::vector<std::vector<double>> chunks; // by stage and chunk: one run; of a chunk that runs in parts, all of them
  double messageLatency = 0, secondsPerByte = 0;
  // Seconds of two runs that are a pair: stage, first and second chunk; the sum of both where there are none.
  using Pair = std::array<int64_t, 3>;
  std::map<Pair, double> pairs = {};
  // Seconds that steps take longer than their chunks say: by stage and step of its list. A step that is not here takes no more.
  std::map<std::pair<int64_t, int64_t>, double> longer = {};
};

// The part of its chunk's seconds that each step of the list takes: less than 1 where the chunk runs in parts.
std::vector<double> partsOfChunks(const plan::StagePlan &stage);

// Parts of a chunk take equally long. Chunks of the tasks that all stages meet for take as long as the costs say for each.
PlayLists listsOf(const plan::Plan &plan, const PlayCosts &costs);

// The plan may be any.
Shape shapeOf(const plan::Plan &plan);

// The task that a run of the chunk is.
ScheduledTask taskOf(const plan::Chunk &chunk, int64_t microbatch);

} // namespace mgc::schedule
