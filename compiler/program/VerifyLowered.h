// The check that mg-ring and mg-order-rows have run: of a local program's form, and of mg-stage, which may be run without them.
#pragma once

#include "dialects/mg/Mg.h"

namespace mgc {

// Refuses attention that has a ring, and rows of experts that have no order or exchange rows themselves.
mlir::LogicalResult verifyLowered(mlir::Operation *op);

} // namespace mgc
