// See Views.h.
#include "compiler/fuse/Views.h"

using namespace mlir;
using namespace mgc;

// Whether rows of `pitched` dimensions may lie apart in a value that the op reads or makes.
static bool takesPitch(Operation *op, Value value, int64_t dims) {
  if (auto library = dyn_cast<LibraryOpInterface>(op))
    return library.getPitchedDims(value) == dims;
  if (auto row = dyn_cast<RowOpInterface>(op)) // what is zeroed first is zeroed as one stretch
    return value.getDefiningOp() != op || !row.onlyAccumulates();
  return isa<KernelOp>(op);
}

// The first dense use of the value under any of its names; `join` may use it.
static OpOperand *denseUse(Value value, int64_t dims, Operation *join = nullptr) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto rename = dyn_cast<RenameOp>(user)) {
      if (OpOperand *other = denseUse(rename.getResult(), dims, join))
        return other;
    } else if (user != join && !takesPitch(user, value, dims)) {
      return &use;
    }
  }
  return nullptr;
}

OpOperand *mgc::denseUseOfPart(Operation *op) {
  auto parts = dyn_cast<PartsOp>(op);
  if (!parts)
    return nullptr;
  for (Value part : parts.getParts())
    if (OpOperand *use = denseUse(part, viewOf(part).pitch.dims))
      return use;
  return nullptr;
}

bool mgc::isMadeInPlace(JoinOp join, size_t part) {
  Value made = join.getParts()[part];
  while (auto rename = made.getDefiningOp<RenameOp>())
    made = rename.getValue();
  Operation *maker = made.getDefiningOp();
  JoinedAs joined = joinedAs(made);
  if (!maker || joined.join != join || joined.part != part || maker->getBlock() != join->getBlock())
    return false;
  int64_t dims = viewOf(made).pitch.dims;
  bool isOnce = llvm::count_if(made.getUses(), [](OpOperand &use) {
                  return isa<JoinOp>(use.getOwner()) ||
                         (isa<RenameOp>(use.getOwner()) && joinedAs(use.getOwner()->getResult(0)).join);
                }) == 1;
  return isOnce && takesPitch(maker, made, dims) && !denseUse(made, dims, join);
}
