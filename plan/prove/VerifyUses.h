// A microbatch adds to a gradient once for each use of the parameter.
#pragma once

#include "plan/Units.h"
#include "runtime/base/Problems.h"

#include <map>

namespace mgc::plan {

// A parameter, a matrix of several, or a gradient of them, in the rank's memory.
struct ParameterBlock {
  int64_t bytes = 0, instance = -1; // -1: of no instance
  int64_t bucket = 0, element = 0;  // where it begins in the bucket
  StateRole role = StateRole::value;
};
using ParameterBlocks = std::map<int64_t, ParameterBlock>; // by the byte where they begin

// For each stage what is whole and stays where it is; Units has the rest.
std::vector<ParameterBlocks> blocksOfStages(const Plan &plan);

// All virtual stages together have as many calls for a microbatch that add to the gradient of a parameter as the stage's place of it
// has uses, in a whole backward as in its halves. Units are counted as such: at least as often as each of its parameters, at
// most as often as all. In: a plan that passed verifyPlan.
void verifyUses(const Plan &plan, int64_t stage, const ParameterBlocks &blocks, const Units &units, Problems &problems);

} // namespace mgc::plan
