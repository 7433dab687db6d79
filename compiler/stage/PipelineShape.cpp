// See PipelineShape.h.
#include "compiler/stage/PipelineShape.h"

using namespace mgc;

schedule::Shape mgc::shapeOf(mlir::ModuleOp module, int64_t stages) {
  const bool isV = trainingString(module, "placement") == nameOf(schedule::Placement::v);
  return {stages, trainingInt(module, "virtual_stages", 1), trainingInt(module, "microbatches", 1),
          isV ? schedule::Placement::v : schedule::Placement::loop};
}
