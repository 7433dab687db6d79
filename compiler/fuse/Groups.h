// Groups the row ops of a function that become one kernel. In: a block of local ops. Out: groups of row ops. Decides;
// changes nothing.
#pragma once

#include "dialects/mg/Mg.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace mgc {

using RowGroup = llvm::SmallVector<mlir::Operation *>; // in order of the block

// Every row op is in one group. Groups are joined, the pair that saves most first, until no pair saves: see
// KernelCost. The other ops keep their order among each other, and there is an order of groups and other ops
// in which every value is made before it is used. `numbers`: of an op on rows of experts, how many there are; a group has one
// number of them, or none, and its ops use that.
using RowNumbers = llvm::DenseMap<mlir::Operation *, mlir::Value>;
std::vector<RowGroup> findRowGroups(mlir::Block &block, const RowNumbers &numbers);

} // namespace mgc
