// Where no layout fits: the one that needs least memory, and the devices with which one fits.
#pragma once

#include "tools/auto/ProveLayouts.h"

namespace mgc::tools {

// Nothing where the space is so large that looking took minutes.
NearestLayout nearestOf(const LayoutSearch &search, const CompileFlags &flags);

// "; tp 8, zero 3 needs least, 4.96 MiB", with what would do on a line of its own. `last`: why the last that was tried does not fit, for
// where the nearest is not known.
std::string textOf(const NearestLayout &nearest, const SearchedSpace &space, const std::string &last);

} // namespace mgc::tools
