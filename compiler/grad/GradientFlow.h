// Finds the values of a program that have gradients (docs/frozen-parameters.md): those computed from a trained
// parameter.
#pragma once

#include "dialects/mg/Mg.h"

#include "llvm/ADT/DenseSet.h"

namespace mgc {

bool isActivation(mlir::func::FuncOp block, unsigned argument);
bool isActivationResult(mlir::func::FuncOp block, unsigned result); // not added to the step's results

// The values of a block, or of its forward function in any later form, that are made of a trained parameter or of an activation
// that has a gradient. Load of experts (Parameter.h) is counted, and carries none.
class TrainedValues {
public:
  explicit TrainedValues(mlir::func::FuncOp block);
  bool contains(mlir::Value value) const { return values_.contains(value); }

private:
  void add(mlir::Block &body);
  llvm::DenseSet<mlir::Value> values_;
};

// before:  mg.chain { mg.instance @embed  mg.instance @layer count 4  mg.instance @head }         the table is frozen
// after:   mg.chain { mg.instance @embed  mg.instance @layer_frozen0  mg.instance @layer first 1 count 3  mg.instance @head }
//
// Activations that have no gradient get kFrozenAttr, where they are made and where they are taken. A block that takes such ones
// in some of its instances, and others elsewhere, becomes a block for each set of them.
void markFrozenActivations(mlir::ModuleOp module);

} // namespace mgc
