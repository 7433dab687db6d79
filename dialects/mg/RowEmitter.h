// From mg ops to row kernels. In: local row ops that share an iteration space. Out: one RowGraph, and what its operands
// and scalars stand for. An op's emitRow adds its scalar body; values made by the same kernel are nodes, not loads.
#pragma once

#include "codegen/rows/graph/RowGraph.h"
#include "codegen/rows/graph/RowOps.h"
#include "dialects/mg/Mg.h"
#include "dialects/mg/View.h"
#include "plan/Types.h"
#include "llvm/ADT/DenseMap.h"

namespace mgc {

class RowEmitter {
public:
  using Node = rowgen::Node;
  // Where a table is read: the dimension's name, and a per-row i32 node or a constant.
  struct Place {
    mlir::StringAttr name;
    std::variant<int64_t, Node> index;
  };
  struct Operand {
    mlir::Value value;
    rowgen::Access access;
  };

  explicit RowEmitter(const RowSpace &space);

  // --- For the driver
  // Says that a result leaves the kernel: overwritten, or added to what is there, with rows as far apart as `pitch`
  // says.
  void store(mlir::Value result, rowgen::Access access, rowgen::Pitch pitch = {}) { stored_[result] = {access, pitch}; }
  // Only the first rows are made, as many as the number, a value of i32, says.
  void countRows(mlir::Value number);
  // Adds the op's body. Precondition: the op's space is within the emitter's.
  mlir::LogicalResult emit(RowOpInterface op);
  const std::vector<Operand> &operands() const { return operands_; }
  const std::vector<plan::Scalar> &scalars() const { return scalars_; }

  // --- For emitRow
  rowgen::RowGraph &graph() { return graph_; }
  // The value at the current point: its node when this kernel makes it, else a load.
  Node value(mlir::Value value);
  Node value(mlir::Value value, Place place); // made by this kernel: of definePlaces, at a constant
  // Only rows that there are are read of it, at places of data.
  void readCounted(mlir::Value table) { graph_.markCounted(input(table)); }
  // Is it made by this kernel, before the op?
  bool makes(mlir::Value value) const { return nodes_.contains(value); }
  void define(mlir::Value result, Node node);
  // result[.., i] = nodes[i], per-row values; the last dimension is not one of the space.
  void definePlaces(mlir::Value result, llvm::ArrayRef<Node> nodes);
  // result[columns] = sum of node over the rows.
  void sumOverRows(mlir::Value result, Node node);
  // result[place, columns] += node, row by row. The result is added to, never overwritten.
  void addAt(mlir::Value result, Place place, Node node);
  // Global position along a dimension of the space: i32.
  Node globalIndex(mlir::StringAttr name);
  // A global position as a position in the rank's block of `size` elements; outside it is < 0 or >= size.
  Node localIndex(Node global, mlir::StringAttr name, int64_t size);
  Node sumOverColumns(Node node) { return graph_.reduce(rowgen::RowReduction::sum, node); }
  int64_t columnCount() const;
  Node seed();     // i64, of the run
  Node instance(); // i64, number of the block instance
  // For accesses that `value` and `define` cannot say: dims of the value's names, and a new operand over dims. If
  // positions of the value lie apart, they are those of its first dimensions: these dimensions stay first.
  rowgen::Dim dim(mlir::StringAttr name, int64_t size);
  std::vector<rowgen::Dim> dims(mlir::Value value);
  rowgen::RowOperand operand(mlir::Value value, rowgen::Access access, std::vector<rowgen::Dim> dims);
  rowgen::Access accessOf(mlir::Value result) const { return stored_.lookup(result).access; }

private:
  struct Stored {
    rowgen::Access access = rowgen::Access::in;
    rowgen::Pitch pitch = {};
  };
  rowgen::RowOperand input(mlir::Value value);
  int scalar(plan::Scalar scalar);
  plan::Scalar offset(mlir::StringAttr name, int64_t size);

  RowSpace space_;
  rowgen::RowGraph graph_;
  mlir::Operation *op_ = nullptr; // the op whose body is being added
  llvm::DenseMap<mlir::StringAttr, rowgen::Dim> dims_;
  llvm::DenseMap<mlir::Value, Node> nodes_;
  llvm::DenseMap<mlir::Value, std::vector<Node>> places_; // a result's nodes along its last dimension
  llvm::DenseMap<mlir::Value, rowgen::RowOperand> inputs_;
  llvm::DenseMap<mlir::Value, Stored> stored_;
  std::vector<Operand> operands_;
  std::vector<plan::Scalar> scalars_;
};

// table[index] for an i32 node that lies within the table: the table becomes part of the kernel.
rowgen::Node lookUp(rowgen::RowGraph &graph, llvm::ArrayRef<float> table, rowgen::Node index);

// Comparisons: i1.
rowgen::Node greater(rowgen::RowGraph &graph, rowgen::Node a, rowgen::Node b); // f32 operands
rowgen::Node lessI32(rowgen::RowGraph &graph, rowgen::Node a, rowgen::Node b); // signed

} // namespace mgc
