// The buffers kept for a bucket, and their types: one list, which the builder of the step's functions, their verifier and the memory
// map read. What the optimizer keeps stands in the row of its rule (UpdateRules.h).
//
// A bucket is rows of 16 elements in parts: tensor<P x R x 16 x f32, #mg.layout<part [..], flat, lane>>. Parts lie one rank's after
// another's: first those of the stages, then those along the axes that split the parameters; where a rank has a slice of the
// bucket alone, last those along the data axes: first those of `shard`, and of what the update needs those of `outer`. A bucket of
// several units has them as its first dimension, `unit`.
#pragma once

#include "dialects/mg/GatherTime.h"
#include "dialects/mg/Mg.h"
#include "plan/ParameterBuckets.h"

namespace mgc {

// Element types of a bucket's values and gradients.
Precision precisionOf(BucketOp bucket);

struct StateBuffer;

// The sharded types of a bucket's buffers.
class BucketTypes {
public:
  // Precondition: the bucket's elements are a multiple of unitOf.
  BucketTypes(BucketOp bucket, MeshAttr mesh);
  mlir::RankedTensorType of(const StateBuffer &state) const; // a gradient is complete
  // Elements of a row, for each rank that has a slice.
  static int64_t unitOf(BucketOp bucket, MeshAttr mesh);
  mlir::RankedTensorType whole(mlir::Type element) const;    // the same along the data axes
  mlir::RankedTensorType ofUpdate(mlir::Type element) const; // the rank's part: a slice, of a bucket that is sharded
  // Gradients that blocks add to: pending over reduce, data and the stages of a tie, in this order.
  mlir::RankedTensorType pendingGradient() const;
  mlir::RankedTensorType completeGradient() const;
  // Pending over data and the tie alone.
  mlir::RankedTensorType gradientOfReplicas() const;
  // The gradient that begin zeroes and the end of the step completes: the pending one; of units f32, the rank's slice, to which each
  // microbatch adds, pending over reduce, data axes that do not shard, and the tie.
  mlir::RankedTensorType accumulatedGradient() const;
  // The values of one unit: those that blocks read, and the rank's slice, of which they are gathered.
  mlir::RankedTensorType unitValue() const;
  mlir::RankedTensorType unitValueSlice() const;
  // One unit's: the pending one, and what it adds to the accumulated one.
  mlir::RankedTensorType unitGradient() const;
  mlir::RankedTensorType unitSum(mlir::Type element) const;
  // The parts of all that a rank updates, all units one behind the other: how many, elements of one, the type of some.
  int64_t partsOfUpdate() const;
  int64_t elementsOfPart() const;
  mlir::RankedTensorType pieceOfUpdate(mlir::Type element, int64_t parts) const;

private:
  mlir::RankedTensorType typeOf(mlir::Type element, llvm::ArrayRef<mlir::Attribute> axes,
                                llvm::ArrayRef<mlir::Attribute> pending, bool isOneUnit = false) const;
  llvm::SmallVector<mlir::Attribute> pendingOfUnits() const;
  BucketOp bucket_;
  MeshAttr mesh_;
  llvm::SmallVector<mlir::Attribute> parts_, slices_, ofUpdate_; // axes
  int64_t rows_ = 0;                                             // in each part
};

// A buffer of a bucket: plan::State before it has a place.
struct StateBuffer {
  llvm::StringRef name; // in mg.buffer
  plan::StateRole role;
  bool sliced; // a rank has its slice alone
  mlir::Type element;
};

struct UpdateRule;

// The facts of a bucket that its states follow from.
struct BucketTraits {
  bool isSharded = false, isPerUnit = false, hasOuter = false;
  GatherTime gather = GatherTime::never;
};
// In the order of the map.
llvm::SmallVector<StateBuffer, 6> statesOf(const BucketTraits &bucket, const UpdateRule &rule,
                                           const Precision &precision);
llvm::SmallVector<StateBuffer, 6> statesOf(BucketOp bucket);
std::optional<StateBuffer> stateNamed(BucketOp bucket, llvm::StringRef name);
GatherTime gatherTimeOf(BucketOp bucket);
// Whether blocks add to the gradient of one unit at a time, which is summed up in each microbatch.
bool hasUnitGradients(BucketOp bucket);
// Whether calls that use a unit of the bucket need others around them: mg.unit.
bool hasUnitFunctions(BucketOp bucket);
// The state to which values of a unit are gathered; empty: there is none.
llvm::StringRef gatheredValues(BucketOp bucket);
// The state that accumulatedGradient is of.
llvm::StringRef accumulatedGradient(BucketOp bucket);
// Where the rank has what it owns of a bucket's complete gradient.
llvm::StringRef completeGradient(BucketOp bucket);

} // namespace mgc
