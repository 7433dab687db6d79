// See Assemble.h.
#include "compiler/assemble/Assemble.h"

#include "compiler/assemble/PlanParameters.h"
#include "compiler/assemble/Stages.h"
#include "dialects/mg/Images.h"
#include "dialects/mg/Parameter.h"

#include <fmt/ranges.h>

using namespace mlir;

namespace mgc {

namespace {

Result<plan::Objective> objectiveOf(ModuleOp module) {
  const std::string name = trainingString(module, kObjective);
  if (name.empty())
    return plan::Objective::causal;
  if (const std::optional<plan::Objective> objective = plan::valueNamed<plan::Objective>(name))
    return *objective;
  return errorf("{}: {} = '{}'; expected one of {}", kTrainingAttr.str(), kObjective.str(), name,
                fmt::join(plan::enumNames<plan::Objective>, ", "));
}

Result<std::vector<plan::Setting>> settingsOf(ModuleOp module) {
  std::vector<plan::Setting> settings;
  auto training = module->getAttrOfType<DictionaryAttr>(kTrainingAttr);
  auto entries = training ? training.getAs<ArrayAttr>(kSettings) : ArrayAttr();
  for (Attribute entry : entries ? entries.getValue() : llvm::ArrayRef<Attribute>()) {
    std::vector<std::string> words;
    if (auto list = dyn_cast<ArrayAttr>(entry))
      for (Attribute word : list)
        if (auto text = dyn_cast<StringAttr>(word))
          words.push_back(text.str());
    const auto resume = words.size() == 3 ? plan::valueNamed<plan::Setting::Resume>(words[2]) : std::nullopt;
    if (!resume)
      return errorf("{}: an entry of {} is [{}]; expected a flag, a value and one of {}", kTrainingAttr.str(),
                    kSettings.str(), fmt::join(words, ", "), fmt::join(plan::enumNames<plan::Setting::Resume>, ", "));
    settings.push_back({words[0], words[1], *resume});
  }
  return settings;
}

Status describeModel(ModuleOp module, plan::Plan &plan) {
  if (auto model = module->getAttrOfType<DictionaryAttr>(kModelAttr)) {
    if (auto type = model.getAs<StringAttr>("type"))
      plan.modelType = type.str();
    if (auto config = model.getAs<TextAttr>("config"))
      plan.modelConfig = config.getText().str();
    plan.ignoredTensors = textsIn(model, "ignored_tensors");
  }
  plan.mesh = meshOf(module);
  plan.sequenceLength = trainingInt(module, "sequence_length", 0);
  plan.zigzag = trainingInt(module, kZigzag, 1);
  plan.longestDocument = trainingInt(module, kLongestDocument, 0);
  plan.microBatchSize = trainingInt(module, "micro_batch_size", 0);
  plan.globalBatchSize = trainingInt(module, "global_batch_size", 0);
  plan.microbatches = trainingInt(module, "microbatches", 0);
  plan.vocabulary = trainingInt(module, "vocabulary", 0);
  plan.zero = trainingInt(module, "zero", 0);
  plan.schedule = trainingString(module, "schedule");
  plan.virtualStages = trainingInt(module, "virtual_stages", 1);
  plan.dtype = dtypeOf(precisionOf(module).values);
  plan.gradientType = dtypeOf(precisionOf(module).gradients);
  plan.tokenTypes = trainingInt(module, kTokenTypes, 0);
  plan.encoderLength = trainingInt(module, kEncoderLength, 0);
  plan.startToken = trainingInt(module, kStartToken, -1);
  plan.paddingToken = trainingInt(module, kPaddingToken, -1);
  if (auto training = module->getAttrOfType<DictionaryAttr>(kTrainingAttr))
    plan.images = readImages(training.getAs<DictionaryAttr>(kImages));
  MGC_SET(plan.objective, objectiveOf(module));
  MGC_SET(plan.settings, settingsOf(module));
  return Status::ok();
}

} // namespace

Result<AssembledPlan> assemble(ModuleOp module) {
  MGC_ASSIGN(decisions, decide(module));
  AssembledPlan out;
  MGC_TRY(describeModel(module, out.plan));
  ProgramDecisions &programs = decisions.programs;
  for (const StageDecisions &stage : decisions.stages) {
    out.plan.stages.push_back(assembleStage(stage, {module, programs.programs, programs.byFunction}));
    MGC_TRY(addParameters(stage.op, decisions.blocks, out.plan));
  }
  for (AssembledProgram &program : programs.programs)
    out.plan.programs.push_back(std::move(program.program));
  out.kernels = std::move(programs.kernels);
  return out;
}

} // namespace mgc
