// See PipelineShape.h.
#include "compiler/stage/PipelineShape.h"

using namespace mgc;

schedule::Shape mgc::shapeOf(mlir::ModuleOp module, int64_t stages) {
  const TrainingSettings &training = trainingOf(module);
  return {stages, training.virtualStages, training.microbatches,
          training.chunksInV ? schedule::ChunkPlacement::v : schedule::ChunkPlacement::loop};
}
