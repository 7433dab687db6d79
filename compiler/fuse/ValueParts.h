// Ops that may read and write values whose rows lie apart (dialects/mg/View.h). mg-fuse copies where an op may not; the
// form after it is proved by the same functions. Before and after row ops become kernels.
#pragma once

#include "dialects/mg/View.h"

namespace mgc {

// Uses of a part, or of other names of it, that take only dense values.
llvm::SmallVector<mlir::OpOperand *> denseUses(mlir::Value part);

// Whether the part of the join is made where it lies: by an op that lets its result's rows lie apart, for no other join
// and no dense use.
bool isMadeInPlace(JoinOp join, size_t part);

} // namespace mgc
