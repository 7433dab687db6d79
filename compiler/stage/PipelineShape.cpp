// See PipelineShape.h.
#include "compiler/stage/PipelineShape.h"

using namespace mgc;

schedule::Shape mgc::shapeOf(mlir::ModuleOp module, int64_t stages) {
  const bool isV = trainingString(module, "placement") == nameOf(schedule::ChunkPlacement::v);
  return {stages, trainingInt(module, "virtual_stages", 1), trainingInt(module, "microbatches", 1),
          isV ? schedule::ChunkPlacement::v : schedule::ChunkPlacement::loop};
}
