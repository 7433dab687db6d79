// Table of the buffers kept for a bucket. The builder of the step's end, its proof and the memory map read it.
#pragma once

#include "dialects/mg/Mg.h"
#include "plan/Plan.h"

namespace mgc {

// Element types of a bucket's values and gradients.
Precision precisionOf(BucketOp bucket);

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
};

// Where the rank has what it owns of a bucket's reduced gradient.
inline llvm::StringRef completeGradient(bool isSharded) { return isSharded ? "gradient_shard" : "gradient"; }

// In the order of the map.
llvm::ArrayRef<StateBuffer> stateBuffers();

} // namespace mgc
