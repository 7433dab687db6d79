// The shape of the pipeline that mg.training describes.
#pragma once

#include "compiler/schedule/Schedule.h"
#include "compiler/program/Blocks.h"

namespace mgc {

schedule::Shape shapeOf(mlir::ModuleOp module, int64_t stages);

} // namespace mgc
