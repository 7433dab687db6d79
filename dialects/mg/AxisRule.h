// The axis rule of an op: which named factors its operands and results have, what is reduced, kept whole,
// linear. Parsed from the one rule text in the op's TableGen entry; read by shape checks, typing, pending
// sums and the docs.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mgc {

enum class Reduction { sum, max };

// How a pending sum may pass through an operand: not at all, alone, or together with all other `joint`
// operands.
enum class Linear { none, alone, joint };

struct AxisRule {
  using Factors = llvm::SmallVector<mlir::StringAttr, 5>;
  llvm::SmallVector<Factors, 4> operands, results;
  llvm::SmallVector<Linear, 4> linear;        // per operand
  llvm::SmallVector<Reduction, 2> reductions; // per result
  llvm::SmallVector<mlir::StringAttr, 2> whole;
  llvm::SmallVector<mlir::StringAttr, 2>
      rings; // factors whose blocks travel around the ranks that split them
  // A factor whose positions are those of others together, in an order that is data: `c=s.b.k` is a row for each token and choice.
  // It is split by the axes of its parts, in their order.
  struct Merged {
    mlir::StringAttr whole;
    llvm::SmallVector<mlir::StringAttr, 3> parts;
  };
  llvm::SmallVector<Merged, 1> merged;
  std::string error; // not empty: the types do not fit the rule text

  bool isWhole(mlir::StringAttr factor) const { return llvm::is_contained(whole, factor); }
  bool isRing(mlir::StringAttr factor) const { return llvm::is_contained(rings, factor); }
  bool isMerged(mlir::StringAttr factor) const;
  // Whether a value of these dimensions has it: itself, the factor that it is merged into, or one of its parts.
  bool isIn(llvm::ArrayRef<mlir::StringAttr> names, mlir::StringAttr factor) const;
  Factors factors() const; // each once, those of the operands first
};

// Binds the letters of `text` to the dimension names of the op's operand and result types.
AxisRule bindRule(mlir::Operation *op, llvm::StringRef text);

// The form every compute op has, logical, sharded or local:
//   rule_c1 types are tensors with a layout and fit the rule text
//   rule_c2 a factor has one size in all of them
//   rule_c3 a factor is split by the same axes in all of them; a whole factor by none
//   rule_c4 an operand is pending only where the rule is linear; joint operands are pending alike
//   rule_c5 a result is pending over the axes of the factors it lacks, but for those of a ring, and those carried from
//           its operands
//   rule_c7 a merged factor has the axes and, multiplied, the sizes of its parts
//   rule_c6 coordinates, if it has them, are of its dimensions and lists of axes' names
llvm::LogicalResult verifyComputeOp(mlir::Operation *op);

double elementwiseFlops(mlir::Operation *op);

} // namespace mgc
