// Of verifyStageForm: the functions that a stage runs once per step (StepEnd.h). Their arguments and results are
// buffers of the stage, whole; reduce and the reductions sum each bucket's gradient once, over the ranks and stages
// that have parts of it. Errors are diagnostics.
#pragma once

#include "dialects/mg/Mg.h"

namespace mgc {

mlir::LogicalResult verifyStepEnd(StageOp stage, MeshAttr mesh);

} // namespace mgc
