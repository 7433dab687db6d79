// See StateBuffers.h.
#include "compiler/step/StateBuffers.h"

#include "compiler/step/Buckets.h"
#include "compiler/step/UpdateRules.h"
#include "dialects/mg/Parameter.h"

#include <algorithm>

using namespace mlir;

namespace mgc {

static constexpr int64_t kLanes = 16;
static constexpr int64_t kPartRows = kPartElements / kLanes;

// Rows of a part. Parts are summed independently, and no dimension of a kernel is beyond 32 bits. By size alone, so that a sum does
// not depend on the number of threads: the divisor nearest to kPartRows by ratio. A bucket is a sum of multiples of the hidden size
// or so, which has many; a large slice of it is a multiple of kPartRows.
static int64_t partRowsOf(int64_t rows) {
  auto distance = [](int64_t part) { return double(std::max(part, kPartRows)) / double(std::min(part, kPartRows)); };
  int64_t best = rows;
  for (int64_t low = 1; low * low <= rows; ++low)
    if (rows % low == 0)
      best = std::min({best, low, rows / low}, [&](int64_t a, int64_t b) { return distance(a) < distance(b); });
  return best;
}

Precision precisionOf(BucketOp bucket) {
  return precisionOf(bucket->getParentOfType<ModuleOp>(), bucket.getMeanLoad().convertToDouble());
}

int64_t BucketTypes::unitOf(BucketOp bucket, MeshAttr mesh) {
  return kLanes * (bucket.getSharded() ? mesh.sizeOf(bucket.getData()) : 1);
}

BucketTypes::BucketTypes(BucketOp bucket, MeshAttr mesh) : bucket_(bucket), mesh_(mesh) {
  llvm::append_range(parts_, mesh.axesOf(plan::AxisRole::stage));
  llvm::append_range(parts_, bucket.getSplit());
  slices_ = parts_;
  if (bucket.getSharded())
    llvm::append_range(slices_, bucket.getData());
  const int64_t all = bucket.getElements();
  rows_ = partRowsOf((bucket.getSharded() ? all / mesh.sizeOf(bucket.getData()) : all) / kLanes);
}

RankedTensorType BucketTypes::typeOf(Type element, ArrayRef<Attribute> axes, ArrayRef<Attribute> pending) const {
  MLIRContext *context = element.getContext();
  const auto list = [&](ArrayRef<Attribute> attributes) { return ArrayAttr::get(context, attributes); };
  const auto name = [&](StringRef text) { return StringAttr::get(context, text); };
  const int64_t parts = BucketOp(bucket_).getElements() / kLanes / rows_ * mesh_.sizeOf(list(parts_));
  return RankedTensorType::get({parts, rows_, kLanes}, element,
                               LayoutAttr::get(context, {name("part"), name("flat"), name("lane")},
                                               {list(axes), list({}), list({})}, list(pending), Reduction::sum));
}

RankedTensorType BucketTypes::whole(Type element) const { return typeOf(element, parts_, {}); }
RankedTensorType BucketTypes::slice(Type element) const { return typeOf(element, slices_, {}); }
RankedTensorType BucketTypes::completeGradient() const { return slice(precisionOf(bucket_).gradients); }

RankedTensorType BucketTypes::gradientOfReplicas() const {
  SmallVector<Attribute> pending(BucketOp(bucket_).getData().getValue());
  if (!BucketOp(bucket_).getTied().empty())
    pending.push_back(BucketOp(bucket_).getTiedAttr());
  return typeOf(precisionOf(bucket_).gradients, parts_, pending);
}

RankedTensorType BucketTypes::pendingGradient() const {
  SmallVector<Attribute> pending(BucketOp(bucket_).getReduce().getValue());
  llvm::append_range(pending, layoutOf(gradientOfReplicas()).getPending());
  return typeOf(precisionOf(bucket_).gradients, parts_, pending);
}

int64_t StateBuffer::elementsOf(BucketOp bucket, MeshAttr mesh) const {
  int64_t all = bucket.getElements();
  return ofShard && bucket.getSharded() ? all / mesh.sizeOf(bucket.getData()) : all;
}

Type StateBuffer::elementOf(BucketOp bucket) const {
  return type ? precisionOf(bucket).*type : Float32Type::get(bucket.getContext());
}

RankedTensorType StateBuffer::typeOf(BucketOp bucket, MeshAttr mesh) const {
  const BucketTypes types(bucket, mesh);
  return ofShard ? types.slice(elementOf(bucket)) : types.whole(elementOf(bucket));
}

static bool always(BucketOp) { return true; }
static bool hasGradients(BucketOp bucket) { return ruleOf(bucket).hasGradients; }
static bool hasMasters(BucketOp bucket) { return ruleOf(bucket).build && precisionOf(bucket).hasMasters(); }
static bool hasFirstMoment(BucketOp bucket) { return ruleOf(bucket).has("first_moment"); }
static bool hasSecondMoment(BucketOp bucket) { return ruleOf(bucket).has("second_moment"); }

ArrayRef<StateBuffer> stateBuffers() {
  using plan::Bucket;
  static const StateBuffer table[] = {
      {"value", "parameters", false, &Precision::values, always, &Bucket::valueOffset},
      {"gradient", "gradients", false, &Precision::gradients, hasGradients, &Bucket::gradientOffset},
      {"gradient_shard", "gradients", true, &Precision::gradients, hasGradients, &Bucket::gradientShardOffset,
       &Bucket::gradientOffset},
      {"master", "optimizer", true, nullptr, hasMasters, &Bucket::masterOffset},
      {"first_moment", "optimizer", true, nullptr, hasFirstMoment, &Bucket::firstMomentOffset},
      {"second_moment", "optimizer", true, nullptr, hasSecondMoment, &Bucket::secondMomentOffset}};
  return table;
}

const StateBuffer *stateBufferNamed(StringRef name) {
  const auto *found = llvm::find_if(stateBuffers(), [&](const StateBuffer &buffer) { return buffer.name == name; });
  return found == stateBuffers().end() ? nullptr : found;
}

} // namespace mgc
