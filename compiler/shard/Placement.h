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

  // Axes of each factor of the rule in the op: whole factors take none, those of a ring by rows for ops alone
  // (docs/sharding.md, The rule table).
  using Assignment = llvm::SmallMapVector<mlir::StringAttr, mlir::ArrayAttr, 8>;
  Assignment assign(const AxisRule &rule, mlir::Operation *op) const;

  // Requires that no axis splits two of the factors, or one twice (docs/sharding.md, T1): a rank would hold only those
  // blocks whose numbers are equal. Two factors of the rule are exempt: blocks of a ring travel, so that every rank
  // meets all of them, and a merged factor has the axes of its parts.
  static mlir::LogicalResult verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                    const Assignment &assignment, const AxisRule *rule = nullptr);

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
  Assignment homeAxes(LayoutAttr names, ValueKind kind) const;
  llvm::SmallVector<const Row *> rowsOf(mlir::StringAttr factor, llvm::ArrayRef<mlir::StringAttr> factors,
                                        const Place &place) const;
  using IsOpen = llvm::function_ref<bool(mlir::StringAttr factor, const Row &row)>; // whether the row is for it
  Assignment assign(llvm::ArrayRef<mlir::StringAttr> factors, const Place &place, IsOpen isOpen) const;

  MeshAttr mesh_;
  std::vector<Row> rows_; // as the table lists them
  mlir::ArrayAttr none_;
};

} // namespace mgc
