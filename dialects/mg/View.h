// Where a value lies that has no memory of its own: under another name, as a part of a value, or as a part of what it
// is joined to. Read by what places, reads and writes memory: local forms only.
#pragma once

#include "codegen/rows/graph/RowGraph.h"
#include "dialects/mg/Mg.h"

namespace mgc {

struct View {
  mlir::Value base;      // in whose memory; the value itself where it has its own
  int64_t offset = 0;    // elements from its begin
  rowgen::Pitch pitch{}; // pitch of the value's rows; none: it is dense
};

// Ops whose results are in the memory of their operand.
inline bool isView(mlir::Operation *op) { return mlir::isa<RenameOp, PartsOp>(op); }

// The value that this is another name of: itself where it is none.
mlir::Value unrenamed(mlir::Value value);

// One step: the base may be a view itself.
View viewOf(mlir::Value value);

// The value whose memory this one is in: the base of the base, and so on.
mlir::Value storageOf(mlir::Value value);

// The mg.join that this value's memory is a part of, and as which of its operands; null for none. The value may reach
// it under other names. One, once mg-fuse has seen to it (compiler/fuse/ValueParts.h); before that the first of them.
struct JoinedAs {
  JoinOp join;
  size_t part = 0;
};
JoinedAs joinedAs(mlir::Value value);

} // namespace mgc
