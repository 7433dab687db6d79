// Table of the buffers kept for a bucket. The builder of the step's end, the memory map and the proofs of both read it.
#pragma once

#include "dialects/mg/Mg.h"

namespace mgc {

struct StateBuffer {
  llvm::StringRef name;   // in mg.buffer, and in mg.bucket's offsets
  llvm::StringRef region; // of the memory map
  bool ofShard;           // of a sharded bucket a rank has its part
  llvm::StringRef
      unsplit; // where the bucket is not sharded: the buffer that it is then; empty: one of its own
  mlir::Type element;

  bool isOwnOf(BucketOp bucket) const { return unsplit.empty() || bucket.getSharded(); }
  int64_t elementsOf(BucketOp bucket, MeshAttr mesh) const;
};

// Where the rank has what it owns of a bucket's reduced gradient.
inline llvm::StringRef completeGradient(bool isSharded) { return isSharded ? "gradient_shard" : "gradient"; }

// In the order of the map; master where parameters are not f32.
llvm::SmallVector<StateBuffer, 6> stateBuffers(const Precision &precision);

} // namespace mgc
