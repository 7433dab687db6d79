// See VerifyStageForm.h.
#include "compiler/stage/VerifyStageForm.h"

#include "compiler/program/Blocks.h"
#include "compiler/stage/PipelineShape.h"
#include "compiler/step/VerifyStepForm.h"

#include <set>

using namespace mlir;
using namespace mgc;

namespace {

using Res = BlockFunction::ResultKind;

// All instances in the order in which values flow: that of global chunks.
FailureOr<std::vector<Instance>> flow(ModuleOp module, const Blocks &blocks, ArrayRef<StageOp> stages) {
  const schedule::Shape shape = shapeOf(module, int64_t(stages.size()));
  const int64_t virtualStages = shape.virtualStages;
  std::vector<SmallVector<ChunkOp>> chunks;
  for (auto [i, stage] : llvm::enumerate(stages)) {
    StageOp op = stage;
    chunks.push_back(op.all<ChunkOp>());
    if (op.getNumber() != i || int64_t(chunks.back().size()) != virtualStages)
      return op.emitOpError() << "expected number " << i << " and " << virtualStages << " chunks, found "
                              << chunks.back().size();
  }
  std::vector<Instance> instances;
  for (int64_t global = 0; global < shape.chunks(); ++global) {
    ChunkOp op = chunks[shape.stageOf(global)][shape.chunkOf(global)];
    std::vector<Instance> chunk = blocks.instancesOf(op.getBody());
    instances.insert(instances.end(), chunk.begin(), chunk.end());
  }
  return instances;
}

// An activation that crosses from an instance to the next: its type, and whether it has no gradient.
using Crossing = std::pair<Type, bool>;

std::vector<Crossing> activationsInto(const ModelBlock &block) {
  std::vector<Crossing> crossings;
  for (int64_t argument : block.activations)
    crossings.emplace_back(block.forward.argumentType(argument), block.forward.arguments[argument].frozen);
  return crossings;
}
std::vector<Crossing> activationsFrom(const ModelBlock &block) {
  std::vector<Crossing> crossings;
  for (int64_t result : block.forward.resultsOf(Res::out))
    crossings.emplace_back(block.forward.resultType(result), block.forward.results[result].frozen);
  return crossings;
}

LogicalResult verifyFlow(ModuleOp module, const std::vector<Instance> &instances) {
  std::set<std::pair<const ModelBlock *, int64_t>> seen;
  std::vector<Crossing> flow;
  for (const Instance &instance : instances) {
    if (!seen.insert({instance.block, instance.number}).second)
      return module.emitError() << "instance " << instance.number << " of " << instance.block->name
                                << " stands in two places; expected each once";
    if (activationsInto(*instance.block) != flow)
      return module.emitError() << "instance " << instance.number << " of " << instance.block->name
                                << " does not take the activations that the instance before it gives";
    flow = activationsFrom(*instance.block);
  }
  if (instances.empty())
    return module.emitError("the stages have no instances of blocks");
  if (!flow.empty())
    return module.emitError() << "the last instance is of " << instances.back().block->name
                              << ", which gives activations that no instance takes";
  const auto found = llvm::count_if(instances, [](const Instance &instance) { return instance.block->returnsLoss(); });
  if (found != 1)
    return module.emitError() << found << " instances return one loss_sum and one tokens; expected one";
  return success();
}

} // namespace

LogicalResult mgc::verifyStageForm(ModuleOp module) {
  auto blocks = Blocks::read(module);
  if (failed(blocks))
    return failure();
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr); // verifyShardForm: there is one
  auto stages = llvm::to_vector(module.getOps<StageOp>());
  if (int64_t expected = plan::stageCount(mesh.getMesh()); int64_t(stages.size()) != expected)
    return module.emitError() << "has " << stages.size() << " mg.stage; expected " << expected
                              << ", the extent of the axes of the role stage in " << kMeshAttr;
  auto instances = flow(module, *blocks, stages);
  if (failed(instances) || failed(verifyFlow(module, *instances)) || failed(verifyStepForm(module, *blocks, stages)))
    return failure();
  return success();
}
