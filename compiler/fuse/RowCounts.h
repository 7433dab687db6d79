// Finds the values with rows of experts, and the counts of these rows. In: a block of local ops. The counts of rows are
// known where rows are ordered, multiplied and brought back to their tokens; row ops, and views, on rows of one first
// dimension have the same.
#pragma once

#include "dialects/mg/Mg.h"

#include "llvm/ADT/DenseMap.h"

namespace mgc {

class RowCounts {
public:
  // Error: an op on rows of two orders, or one that sums over rows of experts, of which it would have all places.
  static mlir::FailureOr<RowCounts> of(mlir::Block &block);
  // The counts of the rows that the row op iterates: a number for each expert; null, where they are no expert's.
  mlir::Value countsOf(mlir::Operation *op) const;

private:
  mlir::LogicalResult add(mlir::Operation *by, mlir::Value rows, mlir::Value counts);
  mlir::LogicalResult addSeeds(ExpertRowsOpInterface op);
  mlir::LogicalResult spread(mlir::Value rows);

  llvm::DenseMap<mlir::Value, mlir::Value> counts_;
  llvm::SmallVector<mlir::Value> open_; // values whose ops are still to be visited
};

} // namespace mgc
