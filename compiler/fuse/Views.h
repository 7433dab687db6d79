// Who may read and write values whose rows lie apart (dialects/mg/View.h). mg-fuse copies where one may not; the form
// after it is proved by the same functions. Before and after row ops become kernels.
#pragma once

#include "dialects/mg/View.h"

namespace mgc {

// A use of a part of the op's, or of another name of one, that takes only dense values; null: there is none, or the op is
// no mg.parts.
mlir::OpOperand *denseUseOfPart(mlir::Operation *op);

// Whether the part of the join is made where it lies: by an op that lets its result's rows lie apart, for no other join
// and no other dense use.
bool isMadeInPlace(JoinOp join, size_t part);

} // namespace mgc
