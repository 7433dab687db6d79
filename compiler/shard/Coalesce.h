// P8: reshards that one op asks for, or asks of what it gave, become one.
#pragma once

#include "dialects/mg/Mg.h"

namespace mgc {

// before:  %k1 = mg.reshard %k    %v1 = mg.reshard %v        equal changes of layout, for the operands of one op
// after:   %n = mg.join %k, %v along "n"   %n1 = mg.reshard %n   %k1, %v1 = mg.parts %n1 along "n"
//
// The same after an op, for its results. In: a function of shard form; values may have a dimension of their own before
// the last one (r of queries), which no axis splits. Reshards without communication stay as they are.
void coalesceReshards(mlir::func::FuncOp function);

} // namespace mgc
