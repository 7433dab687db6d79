// See BlockParameters.h.
#include "compiler/step/BlockParameters.h"

#include "dialects/mg/Parameter.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace mgc {

static FailureOr<BlockParameter> describe(const ModelBlock &block, int64_t argument) {
  func::FuncOp forward = block.forward.function;
  auto mesh = forward->getParentOfType<ModuleOp>()->getAttrOfType<MeshAttr>(kMeshAttr);
  const auto inMeshOrder = [&](function_ref<bool(StringAttr)> wanted) {
    plan::Axes axes;
    for (StringAttr axis : mesh.getNames())
      if (wanted(axis))
        axes.push_back(axis.getValue().str());
    return axes;
  };
  const auto isData = [&](StringAttr axis) { return plan::seesOtherTokens(mesh.roleOf(axis)); };
  auto param = forward.getArgAttrOfType<DictionaryAttr>(argument, kParamAttr);
  RankedTensorType type = shardedType(forward.getArgAttr(argument, kTypeAttr));
  RankedTensorType gradient = block.gradientType(argument);
  DictionaryAttr first = viewsOf(param).front(); // joined views either all decay or none does
  auto tensor = first.getAs<StringAttr>("tensor"), part = first.getAs<StringAttr>("part");
  const bool frozen = isFrozen(param);
  if (!type || (!gradient && !frozen) || !tensor || !first.getAs<DenseI64ArrayAttr>("file_shape"))
    return errorIn(forward) << "parameter " << argument
                            << " lacks mg.type, a gradient, its tensor or file_shape: run mg-grad to mg-local first";
  LayoutAttr layout = layoutOf(type), pending = gradient ? layoutOf(gradient) : LayoutAttr();
  BlockParameter result;
  result.argument = argument;
  result.tensor = tensor.str();
  result.part = part ? part.str() : "";
  result.elements = block.forward.argumentType(argument).getNumElements();
  auto isPending = [&](StringAttr axis) { return pending && llvm::is_contained(pending.getPending(), axis); };
  result.key.reduce = inMeshOrder([&](StringAttr axis) { return isPending(axis) && !isData(axis); });
  const auto splits = [&](StringAttr axis) {
    return llvm::any_of(layout.getAxes(), [&](ArrayAttr axes) { return llvm::is_contained(axes, axis); });
  };
  result.key.split = inMeshOrder(splits);
  result.key.data =
      inMeshOrder([&](StringAttr axis) { return isData(axis) && (frozen ? !splits(axis) : isPending(axis)); });
  result.key.decay = decays(first);
  result.key.meanLoad = meanLoadOf(param);
  result.key.use = frozen                    ? plan::BucketUse::frozen
                   : isCounter(param)        ? plan::BucketUse::loadCounter
                   : result.key.meanLoad > 0 ? plan::BucketUse::routerBias
                                             : plan::BucketUse::trained;
  result.key.isEvaluated = isEvaluated(param);
  llvm::raw_string_ostream(result.view) << type << " " << param;
  return result;
}

FailureOr<std::vector<BlockParameter>> parametersOf(const ModelBlock &block) {
  std::vector<BlockParameter> parameters;
  for (auto [i, argument] : llvm::enumerate(block.forward.arguments)) {
    if (argument.kind != BlockFunction::ArgumentKind::parameter)
      continue;
    auto described = describe(block, i);
    if (failed(described))
      return failure();
    parameters.push_back(std::move(*described));
  }
  return parameters;
}

Sharding shardingOf(ModuleOp module) {
  const TrainingSettings &training = trainingOf(module);
  return {meshOf(module), training.zero, training.shardsOuter, training.reshardsAfterForward,
          training.overlapsParamGather};
}

} // namespace mgc
