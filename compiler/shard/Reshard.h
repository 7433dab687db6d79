// The lowering of any change of layout to slices and collectives: docs/sharding.md, R1 to R6.
#pragma once

#include "dialects/mg/Mg.h"

namespace mgc {

enum class ReshardKind { slice, reduceScatter, allToAll, allReduce, allGather, demote };

struct ReshardStep {
  ReshardKind kind;
  mlir::ArrayAttr axes; // first = major
  int64_t dim = -1;     // slice, reduceScatter, allGather; allToAll: the dimension that becomes split
  int64_t from = -1;    // allToAll: the dimension that is concatenated
  LayoutAttr result;    // layout after the step
  mlir::DenseI64ArrayAttr stages = nullptr; // allReduce of a tie, in the place of axes
};

// Steps that take a value from layout `from` to `to` (equal names). Complete and terminating for two legal
// layouts:
//   state: axes T[d] per dimension, pending P; goal B. prefix = longest common prefix of T[d] and B[d];
//   surplus and wanted are what T[d] and B[d] have beyond it. The first rule that applies:
//   1 slice           d without surplus, next wanted axes replicated
//   2 reduce-scatter  d without surplus, next wanted axes pending
//   3 all-to-all      d's next k wanted axes = last k surplus axes of e
//   4 all-reduce      pending axes that B neither keeps nor splits
//   5 all-reduce      over the stages of a tie that B does not keep: of what is left of a value that was divided
//   6 all-gather      the minor surplus axes of a dimension
//   7 demote          replicated axes that are pending in B
// Every step lowers (surplus + wanted + axes to reduce) by at least one; none raises it.
llvm::SmallVector<ReshardStep> planReshard(LayoutAttr from, LayoutAttr to);

// Elements a rank sends for the steps, for a tensor of this global shape; slices and demotes are free.
double reshardCost(llvm::ArrayRef<ReshardStep> steps, LayoutAttr from, llvm::ArrayRef<int64_t> shape, MeshAttr mesh);

// Elements of a rank's block.
int64_t localElements(llvm::ArrayRef<int64_t> shape, LayoutAttr layout, MeshAttr mesh);

} // namespace mgc
