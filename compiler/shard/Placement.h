// The rule table: which mesh axes split a dimension name. Megatron-LM's whole placement is this table.
#pragma once

#include "dialects/mg/Mg.h"

#include "llvm/ADT/MapVector.h"

namespace mgc {

class Placement {
public:
  // Reads mg.mesh and mg.placement of a module; the axes of the table are named axes of the mesh.
  static mlir::FailureOr<Placement> of(mlir::ModuleOp module);

  MeshAttr mesh() const { return mesh_; }

  // Axes of each factor in an op (or value) with these factors; whole factors take none. `extra` axes are
  // taken by a factor only beside its `with` factor, not beside its `without` factor, and where no other
  // factor takes any part of them (docs/sharding.md).
  using Assignment = llvm::SmallMapVector<mlir::StringAttr, mlir::ArrayAttr, 8>;
  Assignment assign(llvm::ArrayRef<mlir::StringAttr> factors,
                    llvm::ArrayRef<mlir::StringAttr> whole = {}) const;

  // That no axis splits two of the factors, or one twice (docs/sharding.md, T1): a rank would hold only those blocks
  // whose numbers are equal.
  static mlir::LogicalResult verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                    const Assignment &assignment);

  // Whether the table has a row for the name.
  bool has(mlir::StringAttr name) const { return rows_.contains(name); }

  // Home layout of a value: the table applied to its own names.
  LayoutAttr home(LayoutAttr names) const;

  // The layout with the names of `names` and the axes of the assignment, complete.
  LayoutAttr restrict(LayoutAttr names, const Assignment &assignment) const;

  // The axes in the order of the mesh, each once.
  mlir::ArrayAttr inMeshOrder(llvm::ArrayRef<mlir::Attribute> axes) const;

private:
  mlir::LogicalResult verifyTensors(mlir::ModuleOp module) const;

  struct Row {
    mlir::ArrayAttr axes;  // primitive
    mlir::StringAttr with; // null: no extra
    mlir::ArrayAttr extra;
    mlir::StringAttr without = {}; // null: none
  };
  MeshAttr mesh_;
  llvm::SmallDenseMap<mlir::StringAttr, Row, 8> rows_;
  mlir::ArrayAttr none_;
};

} // namespace mgc
