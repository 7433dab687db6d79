// See VerifyShardForm.h.
#include "compiler/shard/VerifyShardForm.h"

#include "compiler/program/Blocks.h"
#include "dialects/mg/Mg.h"

using namespace mlir;
using namespace mgc;

LogicalResult mgc::verifyShardForm(ModuleOp module) {
  FailureOr<MeshAttr> mesh = requireMesh(module);
  if (failed(mesh))
    return failure();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(kPassAttr))
      continue;
    for (Type type : function.getArgumentTypes())
      if (failed(mesh->verifyType([&] { return errorIn(function); }, type)))
        return failure();
    auto verify = [&](Operation *op) {
      for (Type type : op->getResultTypes())
        if (failed(mesh->verifyType([&] { return op->emitOpError(); }, type)))
          return WalkResult::interrupt();
      return WalkResult::advance();
    };
    if (function.walk(verify).wasInterrupted())
      return failure();
  }
  return success();
}
