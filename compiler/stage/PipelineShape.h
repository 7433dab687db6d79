// The shape of the pipeline that mg.training describes.
#pragma once

#include "compiler/program/Blocks.h"
#include "compiler/schedule/Schedule.h"

namespace mgc {

schedule::Shape shapeOf(mlir::ModuleOp module, int64_t stages);

} // namespace mgc
