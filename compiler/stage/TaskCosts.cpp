// See TaskCosts.h.
#include "compiler/stage/TaskCosts.h"

#include "dialects/mg/Mg.h"

using namespace mlir;
using namespace mgc;

namespace {

// The part of the room for rows of experts that is filled where each expert has equally many (plan/EvenLoad.h).
class EvenRows {
public:
  explicit EvenRows(func::FuncOp function) {
    const auto mesh = function->getParentOfType<ModuleOp>()->getAttrOfType<MeshAttr>(kMeshAttr);
    function.walk([&](GroupOp op) {
      if (!op.getAxes().empty())
        add(op.getSources(), double(tensorOf(op.getExperts()).getNumElements()) / double(mesh.sizeOf(op.getAxes())));
    });
    function.walk([&](ExchangeOp op) {
      const Value there = op.getBack() ? op.getValue() : op.getResult(),
                  own = op.getBack() ? op.getResult() : op.getValue();
      add(there, double(tensorOf(own).getDimSize(0)));
    });
  }

  double shareOf(Operation *op) const {
    for (Value value : llvm::concat<Value>(llvm::to_vector(op->getOperands()), llvm::to_vector(op->getResults())))
      if (tensorOf(value).getRank() > 0)
        if (const auto it = shares_.find(keyOf(value)); it != shares_.end())
          return it->second;
    return 1;
  }

private:
  // The dimension of rows, and its size: those that a rank has of its own tokens may have the same name.
  using Key = std::pair<StringAttr, int64_t>;
  static Key keyOf(Value rows) { return {layoutOf(rows).getNames().front(), tensorOf(rows).getDimSize(0)}; }
  void add(Value rows, double mean) {
    shares_[keyOf(rows)] = std::min(1.0, mean / double(tensorOf(rows).getDimSize(0)));
  }

  llvm::DenseMap<Key, double> shares_;
};

double visitedBy(RowOpInterface row) {
  RowSpace space = row.getRowSpace();
  double visited = 1;
  for (const RowSpace::Dims &dims : {space.rows, space.columns})
    for (const RowSpace::NamedDim &dim : dims)
      visited *= double(dim.size);
  return visited;
}

} // namespace

double mgc::flopsOf(func::FuncOp function) {
  const EvenRows even(function);
  double flops = 0;
  function.walk([&](ComputeOpInterface op) {
    auto row = dyn_cast<RowOpInterface>(*op);
    flops += even.shareOf(op) * (row ? visitedBy(row) : op.getFlops());
  });
  return flops;
}
