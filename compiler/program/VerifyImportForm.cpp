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
  if (auto param = block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr); param && block.getArgument(i).use_empty())
    return errorIn(block) << "argument " << i << ": the parameter " << nameOf(param) << " is not used";
  return success();
}

// Numbers of each block's instances in the chain.
using Instances = llvm::DenseMap<StringAttr, SmallVector<int64_t>>;

Instances instancesIn(ModuleOp module) {
  Instances numbers;
  module.walk([&](InstanceOp instance) {
    for (int64_t i = 0; i < int64_t(instance.getCount()); ++i)
      numbers[instance.getBlockAttr().getAttr()].push_back(int64_t(instance.getFirst()) + i);
  });
  return numbers;
}

// A view of the checkpoint is a parameter, or part of one, the same wherever it stands, and trained everywhere or nowhere.
// `parameterOf`: by view of an instance.
LogicalResult verifyParameterViews(func::FuncOp block, ArrayRef<int64_t> instances,
                                   std::map<std::string, std::string> &parameterOf) {
  for (unsigned i = 0; i < block.getNumArguments(); ++i) {
    auto param = block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr);
    const auto textOf = [&] { return nameOf(param) + (isFrozen(param) ? ", frozen" : ""); };
    for (DictionaryAttr view : param ? viewsOf(param) : SmallVector<DictionaryAttr, 3>())
      for (int64_t number : instances)
        if (auto known = parameterOf.try_emplace(nameForInstance(nameOf(view), number), textOf()).first;
            known->second != textOf())
          return errorIn(block) << "argument " << i << ": " << nameOf(view) << " is part of the parameter " << textOf()
                                << " here, of " << known->second << " elsewhere";
  }
  return success();
}

} // namespace

LogicalResult mgc::verifyImportForm(ModuleOp module) {
  if (failed(verifyTrainingNumbers(module)))
    return failure();
  static constexpr int64_t kOutsideChain[] = {0};
  const Instances instances = instancesIn(module);
  std::map<std::string, std::string> parameterOf;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(kBlockAttr))
      continue;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (failed(verifyBlockArgument(function, i)))
        return failure();
    const auto own = instances.find(function.getNameAttr());
    const ArrayRef<int64_t> numbers = own == instances.end() ? ArrayRef(kOutsideChain) : ArrayRef(own->second);
    if (failed(verifyParameterTypes(function)) || failed(verifyParameterViews(function, numbers, parameterOf)))
      return failure();
    if (!llvm::all_of(function.getArgumentTypes(), isLogical))
      return errorIn(function) << "an argument is split or pending; a logical program splits nothing";
    for (Operation &op : function.getBody().front())
      if (!llvm::all_of(op.getResultTypes(), isLogical))
        return op.emitOpError("is split or pending; a logical program splits nothing");
  }
  return success();
}
