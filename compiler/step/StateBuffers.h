// Table of the buffers kept for a bucket, and their types. The builder of the step's functions, their verifier and the memory map
// read it.
//
// A bucket is rows of 16 elements in parts: tensor<P x R x 16 x f32, #mg.layout<part [..], flat, lane>>. Parts lie one rank's after
// another's: first those of the stages, then those along the axes that split the parameters; where a rank has a slice of the
// bucket alone, last those along the data axes.
#pragma once

#include "dialects/mg/Mg.h"
#include "plan/ParameterBuckets.h"

namespace mgc {

// Element types of a bucket's values and gradients.
Precision precisionOf(BucketOp bucket);

// The sharded types of a bucket's buffers.
class BucketTypes {
public:
  // Precondition: the bucket's elements are a multiple of unitOf.
  BucketTypes(BucketOp bucket, MeshAttr mesh);
  // Elements of a row, for each rank that has a slice.
  static int64_t unitOf(BucketOp bucket, MeshAttr mesh);
  mlir::RankedTensorType whole(mlir::Type element) const; // the same along the data axes
  mlir::RankedTensorType
  slice(mlir::Type element) const; // a slice along these, of a bucket that is sharded; else whole
  // Gradients that blocks add to: pending over reduce, data and the stages of a tie, in this order.
  mlir::RankedTensorType pendingGradient() const;
  mlir::RankedTensorType completeGradient() const;
  // Pending over data and the tie alone.
  mlir::RankedTensorType gradientOfReplicas() const;

private:
  mlir::RankedTensorType typeOf(mlir::Type element, llvm::ArrayRef<mlir::Attribute> axes,
                                llvm::ArrayRef<mlir::Attribute> pending) const;
  BucketOp bucket_;
  MeshAttr mesh_;
  llvm::SmallVector<mlir::Attribute> parts_, slices_; // axes
  int64_t rows_ = 0;                                  // in each part
};

struct StateBuffer {
  llvm::StringRef name;        // in mg.buffer
  llvm::StringRef region;      // region of the memory map
  bool ofShard;                // for a sharded bucket a rank has only its part
  mlir::Type Precision::*type; // element type; null: f32
  bool (*isIn)(BucketOp);      // whether the bucket has it
  int64_t plan::Bucket::*offset;
  // Where the bucket is not sharded: the offset of the buffer that it is then; null: it is a buffer of its own.
  int64_t plan::Bucket::*unsplit = nullptr;

  bool isOwnOf(BucketOp bucket) const { return isIn(bucket) && (!unsplit || bucket.getSharded()); }
  int64_t elementsOf(BucketOp bucket, MeshAttr mesh) const;
  mlir::Type elementOf(BucketOp bucket) const;
  // Its sharded type; of a gradient that is complete.
  mlir::RankedTensorType typeOf(BucketOp bucket, MeshAttr mesh) const;
};

// Where the rank has what it owns of a bucket's reduced gradient.
inline llvm::StringRef completeGradient(bool isSharded) { return isSharded ? "gradient_shard" : "gradient"; }

// In the order of the map.
llvm::ArrayRef<StateBuffer> stateBuffers();
const StateBuffer *stateBufferNamed(llvm::StringRef name); // null: there is none

} // namespace mgc
