// See VerifyGradForm.h.
#include "compiler/grad/VerifyGradForm.h"

#include "compiler/program/Blocks.h"
#include "compiler/program/Precision.h"
#include "compiler/program/TrainingNumbers.h"
#include "dialects/mg/Parameter.h"

#include <set>

using namespace mlir;
using namespace mgc;

namespace {

using Arg = BlockFunction::ArgumentKind;
using Res = BlockFunction::ResultKind;

LogicalResult verifyHandedOver(const ModelBlock &block, Res kind, Arg taken,
                               ArrayRef<const BlockFunction *> takers) {
  std::set<int64_t> indices;
  for (const BlockFunction *function : takers)
    for (const BlockFunction::Argument &argument : function->arguments)
      if (argument.kind == taken)
        indices.insert(argument.index);
  const BlockFunction &giver = kind == Res::split ? block.input : block.forward;
  for (size_t i = 0; giver && i < giver.resultsOf(kind).size(); ++i)
    if (!indices.contains(i))
      return errorIn(giver.function) << "hands over " << (kind == Res::split ? "split" : "saved") << " value "
                                     << i << ", which no backward function takes";
  return success();
}

LogicalResult verifyGradients(const ModelBlock &block, ArrayRef<const BlockFunction *> functions) {
  std::map<int64_t, int64_t> gradients; // by argument of forward
  size_t dins = 0;
  for (const BlockFunction *function : functions) {
    dins += function->resultsOf(Res::din).size();
    for (int64_t i : function->resultsOf(Res::grad))
      ++gradients[function->results[i].index];
  }
  func::FuncOp forward = block.forward.function;
  if (dins != block.activations.size())
    return errorIn(forward) << "takes " << block.activations.size()
                            << " activations; backward returns the gradients of " << dins;
  for (auto [i, argument] : llvm::enumerate(block.forward.arguments))
    if (argument.kind == Arg::parameter && gradients[i] != 1)
      return errorIn(forward) << "argument " << i << ": the parameter has " << gradients[i]
                              << " gradients; expected one";
  return success();
}

LogicalResult verifyElements(const BlockFunction &block) {
  func::FuncOp function = block.function;
  ModuleOp module = function->getParentOfType<ModuleOp>();
  for (int64_t i : block.resultsOf(Res::grad)) {
    const double meanLoad = meanLoadOf(function.getResultAttrOfType<DictionaryAttr>(i, kParamAttr));
    Type expected = precisionOf(module, meanLoad).gradients;
    if (elementOf(block.resultType(i)) != expected)
      return errorIn(function) << "result " << i << ": the gradient has elements of "
                               << elementOf(block.resultType(i)) << "; expected " << expected << ", "
                               << reasonOfType(meanLoad, kGradientType);
  }
  return verifyParameterTypes(function);
}

} // namespace

LogicalResult mgc::verifyGradForm(ModuleOp module) {
  auto blocks = Blocks::read(module);
  if (failed(blocks) || failed(verifyPrecision(module)) || failed(verifyTrainingNumbers(module)))
    return failure();
  const std::vector<plan::Task> tasks = passesOf(module);
  for (const auto &[name, block] : *blocks) {
    for (const BlockFunction *function : block.functions())
      if (failed(verifyElements(*function)))
        return failure();
    SmallVector<const BlockFunction *> backward;
    for (plan::Task task : tasks) {
      const BlockFunction *function = block.functionOf(task);
      if (!function && task == plan::Task::weight)
        continue; // its input half returns all gradients, as is proved below
      if (!function)
        return module.emitError() << "block " << name << " has no " << plan::nameOf(task)
                                  << " function, which the schedule runs";
      if (function != &block.forward)
        backward.push_back(function);
    }
    if (failed(verifyHandedOver(block, Res::saved, Arg::saved, backward)) ||
        failed(verifyHandedOver(block, Res::split, Arg::split, backward)) ||
        failed(verifyGradients(block, backward)))
      return failure();
  }
  return success();
}
