// See OffloadPieces.h.
#include "compiler/step/OffloadPieces.h"

#include "runtime/base/Rounding.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace mgc {

bool isOffloadable(const StateBuffer &state) {
  return state.role == plan::StateRole::master || state.role == plan::StateRole::optimizer;
}

int64_t bytesOfPart(BucketOp bucket, const BucketTypes &types) {
  int64_t bytes = 0;
  for (const StateBuffer &state : statesOf(bucket))
    if (isOffloadable(state))
      bytes += types.elementsOfPart() * bytesOfElement(state.element);
  return bytes;
}

static std::vector<UpdatePieces> piecesOf(int64_t onHost, int64_t all, int64_t bytesOfPart) {
  const int64_t most = std::max<int64_t>(kStagingBytes / bytesOfPart, 1);
  const int64_t least = std::max(divideUp(onHost, most), std::min(onHost, kLeastPieces));
  const int64_t parts = onHost / least, count = onHost / parts, rest = onHost % parts;
  std::vector<UpdatePieces> pieces = {{0, parts, count, true}};
  if (rest > 0)
    pieces.push_back({count * parts, rest, 1, true});
  if (onHost < all)
    pieces.push_back({onHost, all - onHost, 1, false});
  return pieces;
}

// Bytes that rounding leaves out of one bucket are those of the next one.
std::vector<std::vector<UpdatePieces>> updatePieces(ArrayRef<BucketOp> buckets, MeshAttr mesh, double fraction) {
  std::vector<std::vector<UpdatePieces>> pieces;
  double wanted = 0, taken = 0; // bytes on the host
  for (BucketOp bucket : buckets) {
    const BucketTypes types(bucket, mesh);
    const int64_t bytes = bytesOfPart(bucket, types), parts = types.partsOfUpdate();
    wanted += fraction * double(bytes) * double(parts);
    const int64_t onHost =
        bytes > 0 ? std::clamp<int64_t>(std::llround((wanted - taken) / double(bytes)), 0, parts) : 0;
    taken += double(bytes) * double(onHost);
    pieces.push_back(onHost > 0 ? piecesOf(onHost, parts, bytes) : std::vector<UpdatePieces>());
  }
  return pieces;
}

} // namespace mgc
