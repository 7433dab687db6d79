// Collectives between stages: runs of several stages that wait for each other.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Problems.h"

#include <map>

namespace mgc::plan {

struct Meetings {
  std::vector<std::vector<int64_t>> groups; // stages that meet, ascending
  // By stage and chunk: groups in order that a run of all of the chunk's calls meets.
  std::vector<std::vector<std::vector<int64_t>>> ofChunks;
};

// Error: a collective of a stage that does not run it; one in a chunk of task gradients, or in steps that are repeated or run a
// part of the chunk; stages of a group that do not have the same ones in the same order.
Meetings meetingsOf(const Plan &plan, Problems &problems);

} // namespace mgc::plan
