// See StageContents.h.
#include "compiler/assemble/StageContents.h"

#include "compiler/step/StateBuffers.h"
#include "compiler/step/UpdateRules.h"

using namespace mlir;

namespace mgc {

static plan::Bucket describeBucket(BucketOp op, size_t number) {
  plan::Bucket bucket;
  bucket.meanLoad = op.getMeanLoad().convertToDouble();
  bucket.use = ruleOf(op).use;
  bucket.name = fmt::format("bucket{}", number);
  bucket.elements = op.getElements();
  bucket.splitAxes = axesOf(op.getSplit());
  bucket.reduceAxes = axesOf(op.getReduce());
  bucket.shardAxes = axesOf(op.getShard());
  bucket.outerAxes = axesOf(op.getOuter());
  if (!bucket.isFrozen() || bucket.isSharded()) // else nothing asks which ranks have the same
    bucket.dataAxes = axesOf(op.getData());
  bucket.units = op.getUnits();
  bucket.tiedStages.assign(op.getTied().begin(), op.getTied().end());
  for (const StateBuffer &state : statesOf(op))
    bucket.states.push_back({state.name.str(), state.role, dtypeOf(state.element), state.sliced});
  return bucket;
}

static StageFunctions functionsOfStep(StageOp stage) {
  StageFunctions names;
  names.others = {stage.getBegin().str(), stage.getReduce().str(), stage.getUpdate().str()};
  for (ReductionOp reduction : stage.all<ReductionOp>())
    names.others.insert(reduction.getFunction().str());
  for (PiecesOp pieces : stage.all<PiecesOp>())
    names.others.insert(pieces.getUpdate().str());
  for (UnitOp unit : stage.all<UnitOp>()) {
    for (StringRef function : unit.functions())
      names.others.insert(function.str());
    if (unit.getGather())
      names.forward.insert(unit.getGather()->str());
  }
  return names;
}

StageFunctions functionsOf(const StageContents &stage, const std::vector<ChunkLayout> &chunks) {
  StageFunctions functions = stage.ofStep;
  for (const ChunkLayout &chunk : chunks)
    for (plan::Task task : plan::kBlockTasks)
      for (const ChunkLayout::Call &call : chunk.callsOf(task))
        if (call.function)
          (task == plan::Task::forward ? functions.forward : functions.others)
              .insert(func::FuncOp(call.function->function).getName().str());
  return functions;
}

StageContents contentsOf(StageOp stage) {
  ModuleOp module = stage->getParentOfType<ModuleOp>();
  StageContents out{&trainingOf(module), meshOf(module), {}, {}, {}, {}, functionsOfStep(stage)};
  for (BucketOp bucket : stage.all<BucketOp>()) {
    out.buckets.push_back(describeBucket(bucket, out.buckets.size()));
    out.gathers.push_back(gatherTimeOf(bucket));
  }
  for (PlaceOp place : stage.all<PlaceOp>())
    out.places.push_back({place.getBlock().str(), int64_t(place.getArgument()), int64_t(place.getFirst()),
                          int64_t(place.getCount()), int64_t(place.getBucket()), int64_t(place.getOffset()),
                          int64_t(place.getStride())});
  for (PiecesOp pieces : stage.all<PiecesOp>())
    if (pieces.getOnHost())
      out.piecesOnHost.push_back(
          {int64_t(pieces.getBucket()), int64_t(pieces.getParts() * pieces.getCount()), sizesOf(pieces)});
  return out;
}

} // namespace mgc
