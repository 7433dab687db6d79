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

schedule::ChunkCost mgc::costOf(ArrayRef<Instance> chunk) {
  schedule::ChunkCost cost{0, 0, 0, 0};
  auto add = [](double &sum, const BlockFunction &function) {
    if (function)
      sum += flopsOf(function.function);
  };
  for (const Instance &instance : chunk) {
    add(cost.forward, instance.block->forward);
    add(cost.backward, instance.block->backward);
    add(cost.input, instance.block->input);
    add(cost.weight, instance.block->weight);
  }
  return cost;
}

// Between GPUs of a node some 1000 FLOPs take as long as a byte, between CPUs of a machine some 10.
double mgc::messageCost(int64_t bytes) {
  constexpr double kFlopsPerByte = 100;
  return kFlopsPerByte * double(bytes);
}
