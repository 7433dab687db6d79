// See VerifyLocalForm.h.
#include "compiler/local/VerifyLocalForm.h"

#include "compiler/program/Blocks.h"
#include "compiler/program/Precision.h"
#include "compiler/program/VerifyLowered.h"
#include "runtime/base/Checked.h"

using namespace mlir;
using namespace mgc;

namespace {

// Whether `local` is what a rank has of `global`.
bool isPartOf(RankedTensorType local, RankedTensorType global, MeshAttr mesh) {
  LayoutAttr layout = layoutOf(global), bare = layoutOf(local);
  if (!layout || !bare || layout.getNames() != bare.getNames())
    return false;
  for (auto [part, whole, axes] : llvm::zip(local.getShape(), global.getShape(), layout.getAxes()))
    if (checkedMultiply(part, mesh.sizeOf(axes)) != Checked(whole))
      return false;
  return local.getElementType() == global.getElementType();
}

LogicalResult verifyParts(func::FuncOp function, MeshAttr mesh) {
  auto verify = [&](const char *what, unsigned i, Type type, Attribute sharded) {
    auto local = cast<RankedTensorType>(type);
    RankedTensorType global = shardedType(sharded);
    if (global && isPartOf(local, global, mesh))
      return success();
    auto error = errorIn(function) << what << " " << i << " is " << local;
    return LogicalResult(error << (global ? ", which is not one rank's part of " : "; expected ") << kTypeAttr
                               << (sharded ? " = " : "") << sharded);
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (failed(verify("argument", i, function.getArgumentTypes()[i], function.getArgAttr(i, kTypeAttr))))
      return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (failed(verify("result", i, function.getResultTypes()[i], function.getResultAttr(i, kTypeAttr))))
      return failure();
  return success();
}

} // namespace

LogicalResult mgc::verifyLocalForm(ModuleOp module) {
  auto blocks = Blocks::read(module);
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr); // verifyShardForm: there is one
  if (failed(blocks))
    return failure();
  for (const auto &[name, block] : *blocks)
    for (const BlockFunction *function : block.functions())
      if (failed(verifyParts(function->function, mesh)))
        return failure();
  auto verify = [](Operation *op) {
    if (failed(verifyLowered(op)))
      return WalkResult::interrupt();
    if (!isa<ReshardOp>(op) && llvm::all_of(op->getResultTypes(), isLogical))
      return WalkResult::advance();
    op->emitOpError("is split, pending or a reshard; a local program has collectives");
    return WalkResult::interrupt();
  };
  for (auto function : module.getOps<func::FuncOp>())
    if (isLocal(function) && (failed(verifyParts(function, mesh)) || function.walk(verify).wasInterrupted()))
      return failure();
  return success();
}
