// Where a value lies that has no memory of its own: under another name, as a part of a value, or as a part of what it
// is joined to. Read by what places, reads and writes memory: local forms only.
#pragma once

#include "compiler/kernels/RowGraph.h"
#include "dialects/mg/Mg.h"

namespace mgc {

struct View {
  mlir::Value base;       // in whose memory; the value itself where it has its own
  int64_t offset = 0;     // elements from its begin
  rowgen::Pitch pitch{};  // of the value's rows; none: it is dense
};

// One step: the base may be a view itself.
View viewOf(mlir::Value value);

// The value whose memory this one is in: the base of the base, and so on.
mlir::Value storageOf(mlir::Value value);

// The mg.join that this value's memory is a part of, and as which of its operands; null for none. The value may reach it
// under other names.
struct JoinedAs {
  JoinOp join;
  size_t part = 0;
};
JoinedAs joinedAs(mlir::Value value);

// Where a part begins among the positions of `along`, and how many it has.
struct PartRange {
  int64_t begin = 0, count = 0;
};
PartRange rangeOf(mlir::ValueRange parts, mlir::Value whole, mlir::StringAttr along, size_t part);

} // namespace mgc
