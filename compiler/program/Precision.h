// Element types of a program: mg.training says which values and gradients have, and the program has those.
#pragma once

#include "dialects/mg/Mg.h"

namespace mgc {

// The parameters of a function have the type of mg.training's values, those that load moves f32.
mlir::LogicalResult verifyParameterTypes(mlir::func::FuncOp function);

// Whether nothing of the type is split or pending.
bool isLogical(mlir::Type type);

} // namespace mgc
