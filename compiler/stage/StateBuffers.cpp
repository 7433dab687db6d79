// See StateBuffers.h.
#include "compiler/stage/StateBuffers.h"

#include "dialects/mg/Parameter.h"

using namespace mlir;

namespace mgc {

Precision precisionOf(BucketOp bucket) {
  return precisionOf(bucket->getParentOfType<ModuleOp>(), bucket.getMeanLoad().convertToDouble());
}

int64_t StateBuffer::elementsOf(BucketOp bucket, MeshAttr mesh) const {
  int64_t all = bucket.getElements();
  return ofShard && bucket.getSharded() ? all / mesh.sizeOf(bucket.getData()) : all;
}

Type StateBuffer::elementOf(BucketOp bucket) const {
  return type ? precisionOf(bucket).*type : Float32Type::get(bucket.getContext());
}

static bool always(BucketOp) { return true; }
static bool hasGradients(BucketOp bucket) { return bucket.hasGradients(); }
static bool hasMasters(BucketOp bucket) { return !bucket.getFrozen() && precisionOf(bucket).hasMasters(); }
static bool hasMoments(BucketOp bucket) { return !bucket.getFrozen() && !bucket.hasLoad(); }

ArrayRef<StateBuffer> stateBuffers() {
  using plan::Bucket;
  static const StateBuffer table[] = {
      {"value", "parameters", false, &Precision::values, always, &Bucket::valueOffset},
      {"gradient", "gradients", false, &Precision::gradients, hasGradients, &Bucket::gradientOffset},
      {"gradient_shard", "gradients", true, &Precision::gradients, hasGradients, &Bucket::gradientShardOffset,
       &Bucket::gradientOffset},
      {"master", "optimizer", true, nullptr, hasMasters, &Bucket::masterOffset},
      {"first_moment", "optimizer", true, nullptr, hasMoments, &Bucket::firstMomentOffset},
      {"second_moment", "optimizer", true, nullptr, hasMoments, &Bucket::secondMomentOffset}};
  return table;
}

} // namespace mgc
