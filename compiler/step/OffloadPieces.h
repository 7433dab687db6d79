// The pieces in which buckets are updated whose states are on the host, some or all. In: a stage's buckets and the fraction of
// the bytes of masters and optimizer states that is to be on the host. Out: for each bucket its pieces, none if all its states
// are on the device: it is updated as a whole.
//
//   a bucket of 21 parts, fraction 0.8, 4 parts in 32 MiB     on the host                            on the device
//                                                             [0,2) [2,4) .. [14,16)  [16,17)        [17,21)
//                                                             8 pieces of 2 parts     1 of 1 part    1 of 4 parts
#pragma once

#include "compiler/step/StateBuffers.h"

#include <vector>

namespace mgc {

// Pieces [first + i * parts, first + (i + 1) * parts) of what a rank updates of a bucket, i < count.
struct UpdatePieces {
  int64_t first = 0, parts = 0, count = 1;
  bool isOnHost = false;
  bool operator==(const UpdatePieces &) const = default;
};

// Bytes of a bucket's masters and optimizer states that a staging buffer has room for, if a part has no more.
inline constexpr int64_t kStagingBytes = int64_t(32) << 20;
// The pieces of a bucket of which so many parts are on the host, so that the copies of some overlap the update of others.
inline constexpr int64_t kLeastPieces = 8;

std::vector<std::vector<UpdatePieces>> updatePieces(llvm::ArrayRef<BucketOp> buckets, MeshAttr mesh, double fraction);

// Bytes of the masters and optimizer states of a part.
int64_t bytesOfPart(BucketOp bucket, const BucketTypes &types);

// Masters and what the optimizer keeps.
bool isOffloadable(const StateBuffer &state);

} // namespace mgc
