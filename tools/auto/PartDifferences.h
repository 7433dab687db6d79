// How the steps of two layouts differ, by the parts that mgc explain prints.
#pragma once

#include "planner/Trials.h"
#include "tools/auto/AutoReport.h"

namespace mgc::tools {

// The parts of `other` that differ most from those of `best`, for more or for less, and not those that hardly do.
std::vector<PartDifference> differencesOf(const planner::Trial &best, const planner::Trial &other, size_t most);

} // namespace mgc::tools
