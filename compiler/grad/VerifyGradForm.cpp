// See VerifyGradForm.h.
#include "compiler/grad/VerifyGradForm.h"

#include "compiler/grad/GradientFlow.h"

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

LogicalResult verifyHandedOver(const ModelBlock &block, Res kind, Arg taken, ArrayRef<const BlockFunction *> takers) {
  std::set<int64_t> indices;
  for (const BlockFunction *function : takers)
    for (const BlockFunction::Argument &argument : function->arguments)
      if (argument.kind == taken)
        indices.insert(argument.index);
  const BlockFunction &giver = kind == Res::split ? block.input : block.forward;
  for (size_t i = 0; giver && i < giver.resultsOf(kind).size(); ++i)
    if (!indices.contains(i))
      return errorIn(giver.function) << "hands over " << (kind == Res::split ? "split" : "saved") << " value " << i
                                     << ", which no backward function takes";
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
  if (dins != block.differentiated.size())
    return errorIn(forward) << "takes " << block.differentiated.size()
                            << " activations that have gradients; backward returns those of " << dins;
  for (auto [i, argument] : llvm::enumerate(block.forward.arguments))
    if (argument.kind == Arg::parameter && gradients[i] != (argument.frozen ? 0 : 1))
      return errorIn(forward) << "argument " << i << ": the parameter has " << gradients[i] << " gradients; expected "
                              << (argument.frozen ? "none, as it is frozen" : "one");
  return success();
}

// A result without gradient is made of nothing that has one.
LogicalResult verifyFrozenResults(const ModelBlock &block) {
  func::FuncOp forward = block.forward.function;
  const std::vector<int64_t> outs = block.forward.resultsOf(Res::out);
  if (llvm::none_of(outs, [&](int64_t i) { return block.forward.results[i].frozen; }))
    return success();
  const TrainedValues trained(forward);
  for (int64_t i : outs)
    if (block.forward.results[i].frozen && trained.contains(forward.getBody().front().getTerminator()->getOperand(i)))
      return errorIn(forward) << "result " << i << " is " << kFrozenAttr
                              << ", but is made of a trained parameter, or of an activation that has a gradient";
  return success();
}

// Requires that an activation which enters an instance has a gradient if the instance before gives it one.
LogicalResult verifyChain(ChainOp chain, const Blocks &blocks) {
  const ModelBlock *before = nullptr;
  for (const Instance &instance : blocks.instancesOf(chain.getBody())) {
    const ModelBlock *block = instance.block;
    if (before)
      for (auto [given, taken] : llvm::zip(before->forward.resultsOf(Res::out), block->activations))
        if (const bool isFrozen = before->forward.results[given].frozen;
            isFrozen != block->forward.arguments[taken].frozen)
          return errorIn(block->forward.function)
                 << "argument " << taken << " is " << (isFrozen ? "not " : "") << kFrozenAttr << ", but result "
                 << given << " of " << func::FuncOp(before->forward.function).getName()
                 << (isFrozen ? " is " : " is not ") << kFrozenAttr;
    before = block;
  }
  return success();
}

LogicalResult verifyElements(const BlockFunction &block) {
  func::FuncOp function = block.function;
  ModuleOp module = function->getParentOfType<ModuleOp>();
  for (int64_t i : block.resultsOf(Res::grad)) {
    const double meanLoad = meanLoadOf(function.getResultAttrOfType<DictionaryAttr>(i, kParamAttr));
    Type expected = precisionOf(module, meanLoad).gradients;
    if (elementOf(block.resultType(i)) != expected)
      return errorIn(function) << "result " << i << ": the gradient has elements of " << elementOf(block.resultType(i))
                               << "; expected " << expected << ", "
                               << reasonOfType(meanLoad, &TrainingSettings::gradientType);
  }
  return verifyParameterTypes(function);
}

} // namespace

LogicalResult mgc::verifyGradForm(ModuleOp module) {
  auto blocks = Blocks::read(module);
  if (failed(blocks) || failed(verifyTrainingNumbers(module)))
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
        failed(verifyHandedOver(block, Res::split, Arg::split, backward)) || failed(verifyGradients(block, backward)) ||
        failed(verifyFrozenResults(block)))
      return failure();
  }
  for (ChainOp chain : module.getOps<ChainOp>())
    if (failed(verifyChain(chain, *blocks)))
      return failure();
  return success();
}
