// See StateBuffers.h.
#include "compiler/stage/StateBuffers.h"

using namespace mlir;

namespace mgc {

int64_t StateBuffer::elementsOf(BucketOp bucket, MeshAttr mesh) const {
  int64_t all = bucket.getElements();
  return ofShard && bucket.getSharded() ? all / mesh.sizeOf(bucket.getData()) : all;
}

SmallVector<StateBuffer, 6> stateBuffers(const Precision &precision) {
  Type f32 = Float32Type::get(precision.values.getContext());
  using plan::Bucket;
  SmallVector<StateBuffer, 6> buffers = {
      {"value", "parameters", false, precision.values, &Bucket::valueOffset},
      {"gradient", "gradients", false, precision.gradients, &Bucket::gradientOffset},
      {"gradient_shard", "gradients", true, precision.gradients, &Bucket::gradientShardOffset,
       &Bucket::gradientOffset}};
  if (precision.hasMasters())
    buffers.push_back({"master", "optimizer", true, f32, &Bucket::masterOffset});
  buffers.push_back({"first_moment", "optimizer", true, f32, &Bucket::firstMomentOffset});
  buffers.push_back({"second_moment", "optimizer", true, f32, &Bucket::secondMomentOffset});
  return buffers;
}

} // namespace mgc
