// Reshard: verifier.
#include "dialects/mg/Mg.h"

using namespace mlir;
using namespace mgc;

LogicalResult ReshardOp::verify() {
  auto from = tensorOf(getValue()), to = tensorOf(getResult());
  LayoutAttr before = layoutOf(from), after = layoutOf(to);
  if (!before || !after || from.getShape() != to.getShape() || from.getElementType() != to.getElementType() ||
      before.getNames() != after.getNames())
    return emitOpError("shape, element type and names must not change (reshard_c1)");
  if (before == after)
    return emitOpError("the layouts are equal (reshard_c2)");
  return success();
}
