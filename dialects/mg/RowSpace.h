// The iteration space of a row op: which dimensions are rows, which columns. Read by fusion and by RowEmitter.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mgc {

struct RowSpace {
  enum class Kind {
    elementwise, // any border between rows and columns will do
    rows,        // reduces over the columns, or reads one place per row
    columns,     // sums over the rows
    alone        // iterates otherwise than its names say: not fused
  };
  struct NamedDim {
    mlir::StringAttr name;
    int64_t size;
    bool operator==(const NamedDim &) const = default;
  };
  using Dims = llvm::SmallVector<NamedDim, 5>;
  Kind kind = Kind::elementwise;
  Dims rows, columns; // outermost first
  bool operator==(const RowSpace &) const = default;
};

// The space that the op's axis rule implies: whole or reduced dimensions at the end are columns; a result
// that has the last dimensions only is a sum over rows.
RowSpace rowSpaceOf(mlir::Operation *op);

// The dims of the named dimensions of a value.
RowSpace::Dims rowDims(mlir::Value value);

// Whether the row op's operand, made by another in the same kernel, would be known only after the kernel: a table that it
// reads places of, a sum over rows.
bool isDoneAfterKernel(mlir::Operation *op, mlir::Value operand);

// The space in which both can be done, or nothing.
std::optional<RowSpace> mergeSpaces(const RowSpace &a, const RowSpace &b);

} // namespace mgc
