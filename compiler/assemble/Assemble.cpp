// See Assemble.h.
#include "compiler/assemble/Assemble.h"

#include "compiler/assemble/PlanParameters.h"
#include "compiler/assemble/Stages.h"
#include "dialects/mg/Parameter.h"

using namespace mlir;

namespace mgc {

namespace {

void describeModel(ModuleOp module, plan::Plan &plan) {
  if (auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr)) {
    if (auto type = model.getAs<StringAttr>("type"))
      plan.modelType = type.str();
    if (auto config = model.getAs<TextAttr>("config"))
      plan.modelConfig = config.getText().str();
    plan.ignoredTensors = textsIn(model, "ignored_tensors");
  }
  plan.mesh = meshOf(module);
  const TrainingSettings &training = trainingOf(module);
  plan.sequenceLength = training.sequenceLength;
  plan.zigzag = training.zigzag;
  plan.longestDocument = training.longestDocument;
  plan.microBatchSize = training.microBatchSize;
  plan.globalBatchSize = training.globalBatchSize;
  plan.microbatches = training.microbatches;
  plan.vocabulary = training.vocabulary;
  plan.zero = training.zero;
  plan.optimizer = training.optimizer;
  plan.schedule = training.schedule;
  plan.virtualStages = training.virtualStages;
  if (training.chunksInV && training.virtualStages > 1 && plan::stageCount(plan.mesh) > 1)
    plan.placement = plan::ChunkPlacement::v;
  plan.dtype = training.dtype;
  plan.gradientType = training.gradientType;
  plan.tokenTypes = training.tokenTypes;
  plan.encoderLength = training.encoderLength;
  plan.startToken = training.startToken.value_or(plan.startToken);
  plan.paddingToken = training.paddingToken.value_or(plan.paddingToken);
  plan.images = training.images;
  plan.objective = training.objective;
  plan.settings = training.settings;
}

} // namespace

Result<AssembledPlan> assemble(ModuleOp module, std::optional<int64_t> *leastBudget) {
  MGC_ASSIGN(decisions, decide(module, leastBudget));
  AssembledPlan out;
  describeModel(module, out.plan);
  out.plan.budget = std::move(decisions.budget);
  ProgramDecisions &programs = decisions.programs;
  for (const StageDecisions &stage : decisions.stages) {
    out.plan.stages.push_back(
        assembleStage(stage, {module, programs.programs, programs.byFunction, programs.hostCopies}));
    MGC_TRY(addParameters(stage.op, decisions.blocks, out.plan));
  }
  for (AssembledProgram &program : programs.programs)
    out.plan.programs.push_back(std::move(program.program));
  out.kernels = std::move(programs.kernels);
  return out;
}

} // namespace mgc
