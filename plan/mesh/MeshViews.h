// The mesh that several views of the same ranks share: their common refinement (docs/sharding.md, Views).
#pragma once

#include "plan/mesh/Mesh.h"

namespace mgc::plan {

// A numbering of ranks: axes, minor first (the first is fastest in the rank number).
//   dense view     tp 4, cp 1, dp 2, pp 2
//   heads of tp 4  tpr 2, tpg 2          (2 groups of key/value heads; 2 ranks share the queries of one)
struct MeshView {
  std::string name; // for messages
  std::vector<Axis> axes;
};

// The products of a view's first sizes are its cuts: 4, 4, 8, 16 and 2, 4. Sorted, the cuts of all views must divide
// each other; the quotients are the primitive axes. Here the cuts 2, 4, 8, 16 give four axes of 2: tpr, tpg, dp, pp,
// and the named list tp = [tpg, tpr].
//
// The first view has all ranks and gives the roles; the others may end below. A primitive axis that is exactly an axis of
// some view has its name (of the first such view); a piece of an axis that no view names is called after it: dp.0 (minor),
// dp.1. Axes of size 1 become empty named lists.
//
// An error names the axis whose cut does not fit, and the sizes of it that would.
Result<Mesh> refine(const std::vector<MeshView> &views);
// Whether there is one: without the list of sizes that would do.
bool canRefine(const std::vector<MeshView> &views);

} // namespace mgc::plan
