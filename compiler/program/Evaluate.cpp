// mg-evaluate: a module of phase import, as it is evaluated: no parameter is trained, and nothing is dropped.
//
// The phases behind it need nothing new: frozen parameters have no gradients, activations without gradients no
// backward, and nothing is saved for a backward that is not needed. The loss is computed where it is in training.
#include "compiler/program/Passes.h"
#include "dialects/mg/Parameter.h"

using namespace mlir;

namespace mgc {
#define GEN_PASS_DEF_EVALUATE
#include "compiler/program/Passes.h.inc"
} // namespace mgc

using namespace mgc;

namespace {

// Counters are moved by nothing; they go on to count.
DictionaryAttr evaluated(DictionaryAttr param) {
  if (isCounter(param) || isFrozen(param))
    return param;
  Builder builder(param.getContext());
  NamedAttrList entries(param);
  entries.set("frozen", builder.getUnitAttr());
  entries.set("evaluated", builder.getUnitAttr());
  return entries.getDictionary(param.getContext());
}

// Arguments that only dropout has read. A block may read its data, parameters and activations for nothing, so data alone go.
void eraseUnreadData(func::FuncOp block) {
  for (unsigned i = block.getNumArguments(); i-- > 0;)
    if (block.getArgAttr(i, kDataAttr) && block.getArgument(i).use_empty())
      (void)block.eraseArgument(i);
}

struct EvaluatePass : mgc::impl::EvaluateBase<EvaluatePass> {
  void runOnForm() override {
    ModuleOp module = getOperation();
    TrainingSettings training =
        trainingOf(module); // there is no backward, for which values would stay, or that recomputed some
    training.reshardsAfterForward = true;
    training.recompute = RecomputeGranularity::standard;
    training.offloadModules.clear();
    training.activationOffload = 0;
    training.memory.clear();
    training.choosesLossTile = false;
    module->setAttr(kTrainingAttr, TrainingAttr::get(&getContext(), training));
    for (auto block : module.getOps<func::FuncOp>()) {
      for (unsigned i = 0; i < block.getNumArguments(); ++i)
        if (auto param = block.getArgAttrOfType<DictionaryAttr>(i, kParamAttr))
          block.setArgAttr(i, kParamAttr, evaluated(param));
      block.walk([](StochasticOpInterface op) { op.dropNothing(); });
      eraseUnreadData(block);
    }
  }
};

} // namespace

std::unique_ptr<Pass> mgc::createEvaluatePass() { return std::make_unique<EvaluatePass>(); }
