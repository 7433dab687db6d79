// See ValueParts.h.
#include "compiler/fuse/ValueParts.h"

using namespace mlir;
using namespace mgc;

// Whether rows apart after `pitch.dims` dimensions are so after `dims` too: those between have one position.
static bool isSamePitch(Value value, rowgen::Pitch pitch, int64_t dims) {
  ArrayRef<int64_t> sizes = tensorOf(value).getShape();
  auto [first, last] = std::minmax(pitch.dims, dims);
  return dims > 0 && llvm::all_of(sizes.slice(first, last - first), [](int64_t size) { return size == 1; });
}

static bool rowFits(RowOpInterface row, Value value, rowgen::Pitch pitch) {
  return pitch.dims + row.getDenseDims() <= tensorOf(value).getRank();
}

// Whether the use may read rows at this pitch. A returned, yielded or joined value has memory of its own.
static bool reads(OpOperand &use, rowgen::Pitch pitch) {
  Operation *op = use.getOwner();
  if (isa<func::ReturnOp, YieldOp, JoinOp>(op))
    return false;
  if (pitch.elements == 0)
    return true;
  if (auto library = dyn_cast<LibraryOpInterface>(op))
    return isSamePitch(use.get(), pitch, library.getPitchedOperandDims(use.getOperandNumber()));
  auto row = dyn_cast<RowOpInterface>(op);
  return row && rowFits(row, use.get(), pitch);
}

// Whether the op may write rows at this pitch. A result that is zeroed before it is added to is zeroed as one stretch.
static bool makes(OpResult result, rowgen::Pitch pitch) {
  Operation *op = result.getOwner();
  if (auto library = dyn_cast<LibraryOpInterface>(op))
    return pitch.elements == 0 || isSamePitch(result, pitch, library.getPitchedResultDims(result.getResultNumber()));
  if (auto kernel = dyn_cast<KernelOp>(op))
    return makes(cast<OpResult>(kernel.getBody().front().getTerminator()->getOperand(result.getResultNumber())), pitch);
  auto row = dyn_cast<RowOpInterface>(op);
  return row && (pitch.elements == 0 || (!row.onlyAccumulates() && rowFits(row, result, pitch)));
}

static void addDenseUses(Value value, rowgen::Pitch pitch, SmallVector<OpOperand *> &dense) {
  for (OpOperand &use : value.getUses()) {
    if (auto rename = dyn_cast<RenameOp>(use.getOwner()))
      addDenseUses(rename.getResult(), pitch, dense);
    else if (!reads(use, pitch))
      dense.push_back(&use);
  }
}

SmallVector<OpOperand *> mgc::denseUses(Value part) {
  SmallVector<OpOperand *> dense;
  addDenseUses(part, viewOf(part).pitch, dense);
  return dense;
}

bool mgc::isMadeInPlace(JoinOp join, size_t part) {
  auto made = dyn_cast<OpResult>(unrenamed(join.getParts()[part]));
  if (!made || made.getOwner()->getBlock() != join->getBlock() || !makes(made, viewOf(made).pitch))
    return false;
  SmallVector<OpOperand *> dense;
  addDenseUses(made, viewOf(made).pitch, dense); // the join itself is one
  return dense.size() == 1 && dense.front()->getOwner() == join && dense.front()->getOperandNumber() == part;
}
