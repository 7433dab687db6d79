// The rule table: which mesh axes split a dimension, where. Megatron-LM's whole placement is such a table
// (frontend/import/megatron-rules.json).
#pragma once

#include "dialects/mg/Mg.h"

#include "llvm/ADT/MapVector.h"

namespace mgc {

class Placement {
public:
  // Reads mg.mesh and mg.placement of a module; the axes of the table are named axes of the mesh.
  static mlir::FailureOr<Placement> of(mlir::ModuleOp module);

  MeshAttr mesh() const { return mesh_; }

  // Axes of each factor in an op (or value) with these factors; whole factors take none (docs/sharding.md, The rule
  // table). `op`: null for the home of a value.
  using Assignment = llvm::SmallMapVector<mlir::StringAttr, mlir::ArrayAttr, 8>;
  Assignment assign(llvm::ArrayRef<mlir::StringAttr> factors, llvm::ArrayRef<mlir::StringAttr> whole,
                    mlir::Operation *op) const;

  // That no axis splits two of the factors, or one twice (docs/sharding.md, T1): a rank would hold only those blocks
  // whose numbers are equal.
  static mlir::LogicalResult verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                    const Assignment &assignment);

  // Whether the table has a row for the name.
  bool has(mlir::StringAttr name) const;

  // Home layout of a value: the table applied to its own names.
  enum class ValueKind { activation, parameter }; // a gradient of a parameter is as the parameter
  LayoutAttr home(LayoutAttr names, ValueKind kind) const;

  // The layout with the names of `names` and the axes of the assignment, complete.
  LayoutAttr restrict(LayoutAttr names, const Assignment &assignment) const;

  // The axes in the order of the mesh, each once.
  mlir::ArrayAttr inMeshOrder(llvm::ArrayRef<mlir::Attribute> axes) const;

private:
  // Where a row is looked up.
  struct Place {
    mlir::Operation *op = nullptr; // null: the home of a value of this kind
    ValueKind kind = ValueKind::activation;
  };
  struct Row {
    mlir::StringAttr dimension;
    mlir::ArrayAttr axes;                // primitive
    mlir::ArrayAttr ops, values;         // null: any
    mlir::StringAttr tag, with, without; // null: any, none
    bool yields = false;
    bool isFor(const Place &place) const;
    bool isBeside(llvm::ArrayRef<mlir::StringAttr> factors) const;
  };

  static mlir::FailureOr<Row> readRow(mlir::ModuleOp module, MeshAttr mesh, mlir::Attribute row);
  mlir::LogicalResult verifyTensors(mlir::ModuleOp module) const;
  llvm::SmallVector<const Row *> rowsOf(mlir::StringAttr factor, llvm::ArrayRef<mlir::StringAttr> factors,
                                        const Place &place) const;
  Assignment assign(llvm::ArrayRef<mlir::StringAttr> factors, llvm::ArrayRef<mlir::StringAttr> whole,
                    const Place &place) const;

  MeshAttr mesh_;
  std::vector<Row> rows_; // as the table lists them
  mlir::ArrayAttr none_;
};

} // namespace mgc
