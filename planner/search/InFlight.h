// How many microbatches stages keep at one time, by the orders of a schedule alone.
#pragma once

#include "plan/play/Solution.h"

#include <map>
#include <string>
#include <vector>

namespace mgc::planner {

class InFlight {
public:
  // [stage][chunk]: microbatches that are between their forward and their backward, or its first half, at the moment when the stage
  // has most of them. Of a schedule whose orders do not follow from the shape, none.
  using Counts = std::vector<std::vector<int64_t>>;
  Counts of(const std::string &schedule, const schedule::Shape &pipeline);

private:
  // Counts for few microbatches, and by how many they grow with each further round of them.
  struct Known {
    Counts counts, growth;
  };
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t>; // schedule, stages, chunks, microbatches
  std::map<Key, Known> known_;
};

} // namespace mgc::planner
