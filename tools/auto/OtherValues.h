// mgc compile --why: for each option that was searched the best layout with another value.
#pragma once

#include "tools/auto/AutoReport.h"
#include "tools/auto/LayoutSearch.h"

namespace mgc::tools {

// The next lower and the next higher number of the space, or all other words; a search each.
std::vector<OtherValue> otherValues(const LayoutSearch &search, const planner::Trial &best);

} // namespace mgc::tools
