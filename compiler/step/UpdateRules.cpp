// See UpdateRules.h.
#include "compiler/step/UpdateRules.h"

using namespace mlir;

namespace mgc {

namespace {

Operation *buildAdamW(OpBuilder &builder, Location loc, const UpdateOperands &o) {
  const Type type = o.value.getType();
  return AdamWOp::create(builder, loc, type, type, type, o.value, o.gradient, o.states[0], o.states[1], o.factor,
                         o.scalars, BucketOp(o.bucket).getDecay());
}

Operation *buildRouterBias(OpBuilder &builder, Location loc, const UpdateOperands &o) {
  return BalanceBiasOp::create(builder, loc, o.value.getType(), o.value, o.gradient, o.scalars,
                               BucketOp(o.bucket).getMeanLoadAttr());
}

constexpr StringLiteral kMoments[] = {"first_moment", "second_moment"};

const UpdateRule kAdamW = {"adamw", /*hasGradients=*/true, /*isInNorm=*/true, kMoments, buildAdamW};
const UpdateRule kRouterBias = {"router_bias", true, false, {}, buildRouterBias};
const UpdateRule kLoadCounter = {"load_counter", true, false, {}, nullptr};
const UpdateRule kFrozen = {"frozen", false, false, {}, nullptr};

} // namespace

const UpdateRule &ruleOf(BucketOp bucket) {
  if (bucket.getFrozen())
    return kFrozen;
  if (bucket.getMeanLoad().convertToDouble() > 0)
    return bucket.getCounts() ? kLoadCounter : kRouterBias;
  return kAdamW;
}

} // namespace mgc
