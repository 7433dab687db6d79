// Which row ops of a function become one kernel. In: a block of local ops. Out: groups of row ops, each of
// which may stand at the position of its last op. Decides; changes nothing.
#pragma once

#include "dialects/mg/Mg.h"

#include "llvm/ADT/SmallVector.h"

namespace mgc {

struct RowGroup {
  RowSpace space;
  llvm::SmallVector<mlir::Operation *> ops; // in order of the block
};

// Every row op is in one group. An op joins a group that makes or reads one of its operands when their spaces
// merge, no other op between uses what the group makes, and nothing dear would be computed once per pass over
// the columns.
std::vector<RowGroup> findRowGroups(mlir::Block &block);

} // namespace mgc
