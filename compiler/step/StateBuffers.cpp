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
  return kLanes * mesh.sizeOf(bucket.getShard()) * mesh.sizeOf(bucket.getOuter()) * int64_t(bucket.getUnits());
}

BucketTypes::BucketTypes(BucketOp bucket, MeshAttr mesh) : bucket_(bucket), mesh_(mesh) {
  llvm::append_range(parts_, mesh.axesOf(plan::AxisRole::stage));
  llvm::append_range(parts_, bucket.getSplit());
  slices_ = parts_;
  llvm::append_range(slices_, bucket.getShard());
  ofUpdate_ = slices_;
  llvm::append_range(ofUpdate_, bucket.getOuter());
  rows_ = partRowsOf(bucket.unitElements() / mesh.sizeOf(bucket.getShard()) / mesh.sizeOf(bucket.getOuter()) / kLanes);
}

RankedTensorType BucketTypes::typeOf(Type element, ArrayRef<Attribute> axes, ArrayRef<Attribute> pending,
                                     bool isOneUnit) const {
  MLIRContext *context = element.getContext();
  const auto list = [&](ArrayRef<Attribute> attributes) { return ArrayAttr::get(context, attributes); };
  const auto name = [&](StringRef text) { return StringAttr::get(context, text); };
  const int64_t parts = BucketOp(bucket_).unitElements() / kLanes / rows_ * mesh_.sizeOf(list(parts_));
  SmallVector<int64_t> shape = {parts, rows_, kLanes};
  SmallVector<StringAttr> names = {name("part"), name("flat"), name("lane")};
  SmallVector<ArrayAttr> split = {list(axes), list({}), list({})};
  if (const int64_t units = BucketOp(bucket_).getUnits(); units > 1 && !isOneUnit) {
    shape.insert(shape.begin(), units);
    names.insert(names.begin(), name("unit"));
    split.insert(split.begin(), list({}));
  }
  return RankedTensorType::get(shape, element, LayoutAttr::get(context, names, split, list(pending), Reduction::sum));
}

RankedTensorType BucketTypes::whole(Type element) const { return typeOf(element, parts_, {}); }
RankedTensorType BucketTypes::ofUpdate(Type element) const { return typeOf(element, ofUpdate_, {}); }
RankedTensorType BucketTypes::completeGradient() const {
  const Type element = precisionOf(bucket_).gradients;
  return ofUpdate(BucketOp(bucket_).getPerUnit() ? Type(Float32Type::get(element.getContext())) : element);
}

SmallVector<Attribute> BucketTypes::pendingOfUnits() const {
  SmallVector<Attribute> pending(BucketOp(bucket_).getReduce().getValue());
  for (Attribute axis : BucketOp(bucket_).getData())
    if (!llvm::is_contained(BucketOp(bucket_).getShard(), axis))
      pending.push_back(axis);
  if (!BucketOp(bucket_).getTied().empty())
    pending.push_back(BucketOp(bucket_).getTiedAttr());
  return pending;
}

RankedTensorType BucketTypes::accumulatedGradient() const {
  if (!BucketOp(bucket_).getPerUnit())
    return pendingGradient();
  return typeOf(completeGradient().getElementType(), slices_, pendingOfUnits());
}

RankedTensorType BucketTypes::unitGradient() const {
  return typeOf(precisionOf(bucket_).gradients, parts_, layoutOf(pendingGradient()).getPending().getValue(), true);
}

RankedTensorType BucketTypes::unitValue() const { return typeOf(precisionOf(bucket_).values, parts_, {}, true); }
RankedTensorType BucketTypes::unitValueSlice() const { return typeOf(precisionOf(bucket_).values, slices_, {}, true); }

RankedTensorType BucketTypes::unitSum(Type element) const { return typeOf(element, slices_, pendingOfUnits(), true); }

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

int64_t BucketTypes::elementsOfPart() const { return rows_ * kLanes; }

int64_t BucketTypes::partsOfUpdate() const {
  const int64_t ranks = mesh_.sizeOf(BucketOp(bucket_).getShard()) * mesh_.sizeOf(BucketOp(bucket_).getOuter());
  return int64_t(BucketOp(bucket_).getElements()) / ranks / elementsOfPart();
}

RankedTensorType BucketTypes::pieceOfUpdate(Type element, int64_t parts) const {
  const RankedTensorType one = typeOf(element, ofUpdate_, {}, true);
  SmallVector<int64_t> shape(one.getShape());
  shape.front() = parts * mesh_.sizeOf(ArrayAttr::get(element.getContext(), ofUpdate_));
  return RankedTensorType::get(shape, element, one.getEncoding());
}

RankedTensorType BucketTypes::of(const StateBuffer &state) const {
  return typeOf(state.element, !state.sliced ? parts_ : isOfUpdate(state.role) ? ofUpdate_ : slices_, {});
}

SmallVector<StateBuffer, 6> statesOf(const BucketTraits &bucket, const UpdateRule &rule, const Precision &precision) {
  using plan::StateRole;
  const auto [isSharded, isPerUnit, hasOuter, gather] = bucket;
  const Type f32 = Float32Type::get(precision.values.getContext());
  SmallVector<StateBuffer, 6> states = {{"value", StateRole::value, gather != GatherTime::never, precision.values}};
  if (gather == GatherTime::use)
    states.push_back({"unit_value", StateRole::unitValue, false, precision.values});
  else if (gather != GatherTime::never)
    states.push_back({"gathered_value", StateRole::gatheredValue, false, precision.values});
  if (isPerUnit && rule.hasGradients) {
    states.push_back({"unit_gradient", StateRole::unitGradient, false, precision.gradients});
    states.push_back({"unit_sum", StateRole::unitSum, true, precision.gradients});
    states.push_back({"gradient_slice", StateRole::gradientSlice, true, f32});
    if (hasOuter)
      states.push_back({"gradient_of_update", StateRole::gradientOfUpdate, true, f32});
  } else if (rule.hasGradients) {
    states.push_back({"gradient", StateRole::gradient, false, precision.gradients});
    if (isSharded)
      states.push_back({"gradient_slice", StateRole::gradientSlice, true, precision.gradients});
  }
  if (rule.build && precision.hasMasters())
    states.push_back({"master", StateRole::master, isSharded, f32});
  for (StringRef name : rule.states)
    states.push_back({name, StateRole::optimizer, isSharded, f32});
  return states;
}

SmallVector<StateBuffer, 6> statesOf(BucketOp bucket) {
  return statesOf({bucket.isSharded(), bucket.getPerUnit(), !bucket.getOuter().empty(), gatherTimeOf(bucket)},
                  ruleOf(bucket), precisionOf(bucket));
}

std::optional<StateBuffer> stateNamed(BucketOp bucket, StringRef name) {
  for (const StateBuffer &state : statesOf(bucket))
    if (state.name == name)
      return state;
  return std::nullopt;
}

GatherTime gatherTimeOf(BucketOp bucket) {
  return *plan::valueNamed<GatherTime>(bucket.getGather()); // bucket_c3
}

bool hasUnitGradients(BucketOp bucket) { return bucket.getPerUnit() && ruleOf(bucket).hasGradients; }

bool hasUnitFunctions(BucketOp bucket) {
  return llvm::any_of(statesOf(bucket), [](const StateBuffer &state) { return isOfMicrobatches(state.role); });
}

StringRef gatheredValues(BucketOp bucket) {
  for (const StateBuffer &state : statesOf(bucket))
    if (isOfMicrobatches(state.role) && !isGradient(state.role))
      return state.name;
  return "";
}

StringRef accumulatedGradient(BucketOp bucket) { return bucket.getPerUnit() ? "gradient_slice" : "gradient"; }
StringRef completeGradient(BucketOp bucket) {
  return !bucket.getOuter().empty() ? "gradient_of_update" : bucket.isSharded() ? "gradient_slice" : "gradient";
}

} // namespace mgc
