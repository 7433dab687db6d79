// See VerifyLowered.h.
#include "compiler/program/VerifyLowered.h"

using namespace mlir;
using namespace mgc;

// Rows that travel do it in mg.exchange.
static bool needsOrder(Operation *op) {
  auto rows = dyn_cast<ExpertRowsOpInterface>(op);
  return rows && (!rows.getOrder() || (rows.getRowOrder() != RowOrder::counts && rows.getExchangeAttr()));
}

LogicalResult mgc::verifyLowered(Operation *op) {
  if (isa<AttentionOp, AttentionGradOp>(op) && op->hasAttr("ring"))
    return op->emitOpError("has a ring; a local program has the steps of the ring, which mg-ring makes");
  if (needsOrder(op))
    return op->emitOpError(
        "has no order of rows, or exchanges them; a local program has mg.group and mg.exchange, which "
        "mg-order-rows makes");
  return success();
}
