// See TaskCosts.h.
#include "compiler/stage/TaskCosts.h"

#include "dialects/mg/Mg.h"

using namespace mlir;
using namespace mgc;

double mgc::flopsOf(func::FuncOp function) {
  double flops = 0;
  function.walk([&](ComputeOpInterface op) {
    auto row = dyn_cast<RowOpInterface>(*op);
    if (!row) {
      flops += op.getFlops();
      return;
    }
    RowSpace space = row.getRowSpace();
    double visited = 1;
    for (const RowSpace::Dims &dims : {space.rows, space.columns})
      for (const RowSpace::NamedDim &dim : dims)
        visited *= double(dim.size);
    flops += visited;
  });
  return flops;
}
