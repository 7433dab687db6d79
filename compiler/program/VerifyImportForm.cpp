// See VerifyImportForm.h.
#include "compiler/program/VerifyImportForm.h"

#include "compiler/program/Blocks.h"
#include "compiler/program/Precision.h"
#include "compiler/program/TrainingNumbers.h"
#include "dialects/mg/Parameter.h"

using namespace mlir;
using namespace mgc;

namespace {

LogicalResult verifyBlockArgument(func::FuncOp block, unsigned i) {
  if (Status status = verifyArgument(block, i); !status.isOk())
    return errorIn(block) << status.message();
  if (auto param = block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
      param && block.getArgument(i).use_empty())
    return errorIn(block) << "argument " << i << ": the parameter " << nameOf(param) << " is not used";
  return success();
}

// A view of the checkpoint is a parameter, or part of one, the same wherever it stands.
LogicalResult verifyParameterViews(func::FuncOp block, std::map<std::string, std::string> &parameterOf) {
  for (unsigned i = 0; i < block.getNumArguments(); ++i) {
    auto param = block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
    for (DictionaryAttr view : param ? viewsOf(param) : SmallVector<DictionaryAttr, 3>())
      if (auto known = parameterOf.try_emplace(nameOf(view), nameOf(param)).first;
          known->second != nameOf(param))
        return errorIn(block) << "argument " << i << ": " << nameOf(view) << " is part of the parameter "
                              << nameOf(param) << " here, of " << known->second << " elsewhere";
  }
  return success();
}

} // namespace

LogicalResult mgc::verifyImportForm(ModuleOp module) {
  if (failed(verifyPrecision(module)) || failed(verifyTrainingNumbers(module)))
    return failure();
  std::map<std::string, std::string> parameterOf; // by view
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(kBlockAttr))
      continue;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(verifyBlockArgument(function, i)))
        return failure();
    if (failed(verifyParameterTypes(function)) || failed(verifyParameterViews(function, parameterOf)))
      return failure();
    if (!llvm::all_of(function.getArgumentTypes(), isLogical))
      return errorIn(function) << "an argument is split or pending; a logical program splits nothing";
    for (Operation &op : function.getBody().front())
      if (!llvm::all_of(op.getResultTypes(), isLogical))
        return op.emitOpError("is split or pending; a logical program splits nothing");
  }
  return success();
}
