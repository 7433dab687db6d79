// How long blocks take, as far as dividing layers among stages asks: an estimate by FLOPs.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mgc {

// The flops of one call. Row ops count the elements they visit: a table is not read as a whole. Experts have equally many rows.
double flopsOf(mlir::func::FuncOp function);

} // namespace mgc
