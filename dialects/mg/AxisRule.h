// The axis rule of an op: which named factors its operands and results have, what is reduced, kept whole, linear.
// Parsed from the one rule text in the op's TableGen entry; read by shape checks, typing, pending sums and the docs.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mgc {

enum class Reduction { sum, max };

// How a pending sum may pass through an operand: not at all, alone, or together with all other `joint` operands.
enum class Linear { none, alone, joint };

struct AxisRule {
  using Factors = llvm::SmallVector<mlir::StringAttr, 5>;
  llvm::SmallVector<Factors, 4> operands, results;
  llvm::SmallVector<Linear, 4> linear;        // per operand
  llvm::SmallVector<Reduction, 2> reductions; // per result
  llvm::SmallVector<mlir::StringAttr, 2> whole;
  llvm::SmallVector<mlir::StringAttr, 2> rings; // factors whose blocks travel around the ranks that split them
  // A factor whose positions are those of others together, in an order that is data: `c=s.b.k:e` is a row for each token and
  // choice, on the rank that has its expert. It is split by the axes of its parts, in their order, and then by those of the
  // factor that places it: parts lose these where both have them, as the op exchanges rows over them.
  struct Merged {
    mlir::StringAttr whole;
    llvm::SmallVector<mlir::StringAttr, 3> parts;
    mlir::StringAttr placing; // null: none does
  };
  llvm::SmallVector<Merged, 1> merged;
  std::string error; // not empty: the types do not fit the rule text

  bool isWhole(mlir::StringAttr factor) const { return llvm::is_contained(whole, factor); }
  bool isRing(mlir::StringAttr factor) const { return llvm::is_contained(rings, factor); }
  bool isMerged(mlir::StringAttr factor) const;
  bool isPlacing(mlir::StringAttr factor) const;
  // Whether a value of these dimensions has it: itself, the factor that it is merged into, or one of its parts.
  bool isIn(llvm::ArrayRef<mlir::StringAttr> names, mlir::StringAttr factor) const;
  Factors factors() const; // each once, those of the operands first, those that only place rows last
  using AxesOf = llvm::function_ref<mlir::ArrayAttr(mlir::StringAttr)>; // the axes that split a factor
  // Axes of a merged factor, by those of the others.
  llvm::SmallVector<mlir::Attribute> axesOf(const Merged &merged, AxesOf axes) const;
  // Axes that split tokens as well as what places their rows: over these the op exchanges rows.
  llvm::SmallVector<mlir::Attribute> exchanged(AxesOf axes) const;
  // Axes over which a result of these dimensions is a sum of the ranks': those of the factors that it lacks. An op with a ring
  // has added up over its ranks what these split, and one that exchanges rows brings them to their tokens.
  llvm::SmallVector<mlir::Attribute> reducedAxes(llvm::ArrayRef<mlir::StringAttr> result, AxesOf axes) const;
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
//   rule_c6 coordinates, if it has them, are of its dimensions and lists of the mesh's axes; so is exchange, of local ops
//           alone, which has the coordinates of what places rows
//   rule_c7 a merged factor has the axes and, multiplied, the sizes of its parts; where another places its rows, the axes of
//           that too, and the size that roomForRows says
llvm::LogicalResult verifyComputeOp(mlir::Operation *op);

// Size and axes of a factor, by the types of an op, or by its count where no type has it.
struct FactorFacts {
  int64_t size = 1;
  mlir::ArrayAttr axes; // axes that split the factor
};
// Precondition: verifyComputeOp, and it is one of its factors.
FactorFacts factsOf(mlir::Operation *op, mlir::StringAttr factor);

// The factor that places the rows of the op, whose block it must know. Precondition: its rule has one.
llvm::SmallVector<mlir::StringAttr> placingFactor(mlir::Operation *op);
// The same, and of rows of a capacity what their tokens' sequences are: how many meet on a rank depends on how they are split.
llvm::SmallVector<mlir::StringAttr> rowFactors(mlir::Operation *op);
// The result of mg.group that an op on rows of experts needs, numbered as there: how many rows each expert has, the place of each
// choice, or the choice of each place.
enum class RowOrder { counts, places, sources };
// The axes over which the op exchanges rows, by its types; of local ones, by its attribute.
mlir::ArrayAttr exchangedAxes(mlir::Operation *op);
inline constexpr llvm::StringLiteral kExchangeAttr = "exchange"; // axes, of a local op on rows

// The size of a merged factor whose rows another places, by the sizes of its parts and of that, which `ranks` share: for k of
// the e factors a token has rows on a rank, at most e / ranks of them, as choices are of different ones.
//     s b k = 16 2 2, e = 8    1 rank: 64    4 ranks: 16 2 8 = 256, of which each has room for 64
// With a capacity no more than that on a rank for each of its e: so many rows one has at most, of all tokens that meet there.
int64_t roomForRows(llvm::ArrayRef<int64_t> parts, int64_t placing, int64_t ranks,
                    std::optional<int64_t> capacity = {});
// Where the module has a factor of the mean (moe_rows_factor): no more than that times the `rows` that `ranks` share.
int64_t roomByMean(mlir::Operation *op, int64_t room, int64_t rows, int64_t ranks = 1);
// The size on all ranks together, by the sizes and axes of the rule's factors; extent: how many ranks there are along axes.
int64_t roomOfAllRanks(mlir::Operation *op, const AxisRule &rule, const AxisRule::Merged &merged,
                       llvm::function_ref<int64_t(mlir::StringAttr)> size, AxisRule::AxesOf axes,
                       llvm::function_ref<int64_t(llvm::ArrayRef<mlir::Attribute>)> extent,
                       std::optional<int64_t> capacity);
// The attribute that says how many rows each of what places them has at most (mg.drop), of the tokens of the op's types; of
// local ops, of the rank's.
inline constexpr llvm::StringLiteral kCapacityAttr = "capacity";
std::optional<int64_t> capacityOf(mlir::Operation *op); // nothing where it has none
// The capacity of a rank, for an op that is not yet local.
std::optional<int64_t> capacityOfRank(mlir::Operation *op);

double elementwiseFlops(mlir::Operation *op);

} // namespace mgc
