// mgc compile --pareto: the fastest layouts within less and less memory.
#pragma once

#include "tools/auto/ProveLayouts.h"

namespace mgc::tools {

// Rows from `fastest` on, which is left out if the next is no slower; each takes at least a tenth less memory than the one before, and no other as little in less time. A search each.
ParetoRows paretoRows(const LayoutSearch &search, const CompileFlags &flags, const ProvedLayout &fastest);

} // namespace mgc::tools
