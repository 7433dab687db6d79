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
}

class Assembler {
public:
  explicit Assembler(const Decisions &decisions) : module_(decisions.module), decisions_(decisions) {}

  Result<AssembledPlan> run() {
    describeModel(module_, out_.plan);
    MGC_TRY(addPrograms());
    for (const StageDecisions &stage : decisions_.stages) {
      out_.plan.stages.push_back(assembleStage(stage, {module_, programs_, programOf_}));
      MGC_TRY(addParameters(stage.op, decisions_.blocks, out_.plan.parameters));
    }
    for (AssembledProgram &program : programs_)
      out_.plan.programs.push_back(std::move(program.program));
    return std::move(out_);
  }

private:
  Status addPrograms() {
    for (auto function : module_.getOps<func::FuncOp>()) {
      const std::optional<plan::Task> task = taskOf(function);
      if (!task)
        continue;
      auto name = function->getAttrOfType<StringAttr>(kBlockAttr);
      const BlockFunction *block = name ? decisions_.blocks.at(name).functionOf(*task) : nullptr;
      if (block && llvm::hasSingleElement(function.getBody().front())) // does nothing: no chunk calls it
        continue;
      const std::string symbol = function.getName().str();
      programOf_[symbol] = int64_t(programs_.size());
      MGC_ASSIGN(program, assembleProgram(function, decisions_.frames.at(symbol), block, programs_.size(),
                                          out_.kernels));
      programs_.push_back(std::move(program));
    }
    return Status::ok();
  }

  ModuleOp module_;
  const Decisions &decisions_;
  std::vector<AssembledProgram> programs_;
  std::map<std::string, int64_t> programOf_;
  AssembledPlan out_;
};

} // namespace

Result<AssembledPlan> assemble(ModuleOp module) {
  MGC_ASSIGN(decisions, decide(module));
  return Assembler(decisions).run();
}

} // namespace mgc
