// See UpdateRules.h.
#include "compiler/step/UpdateRules.h"
#include "plan/Optimizers.h"

using namespace mlir;

namespace mgc {

namespace {

Operation *buildAdamW(OpBuilder &builder, Location loc, const UpdateOperands &o) {
  const Type type = o.value.getType();
  return AdamWOp::create(builder, loc, type, type, type, o.value, o.gradient, o.states[0], o.states[1], o.factor,
                         o.scalars, BucketOp(o.bucket).getDecay());
}

Operation *buildSgd(OpBuilder &builder, Location loc, const UpdateOperands &o) {
  const Type type = o.value.getType();
  return SgdOp::create(builder, loc, type, type, o.value, o.gradient, o.states[0], o.factor, o.scalars,
                       BucketOp(o.bucket).getDecay());
}

Operation *buildLion(OpBuilder &builder, Location loc, const UpdateOperands &o) {
  const Type type = o.value.getType();
  return LionOp::create(builder, loc, type, type, o.value, o.gradient, o.states[0], o.factor, o.scalars,
                        BucketOp(o.bucket).getDecay());
}

Operation *buildRouterBias(OpBuilder &builder, Location loc, const UpdateOperands &o) {
  return BalanceBiasOp::create(builder, loc, o.value.getType(), o.value, o.gradient, o.scalars,
                               BucketOp(o.bucket).getMeanLoadAttr());
}

constexpr StringLiteral kMoments[] = {"exp_avg", "exp_avg_sq"}, kMomentum[] = {"momentum_buffer"},
                        kMoment[] = {"exp_avg"};

// Rules of trained parameters have the names of plan::Optimizer.
const UpdateRule kRules[] = {
    {"adamw", plan::BucketUse::trained, /*hasGradients=*/true, /*isInNorm=*/true, kMoments, buildAdamW},
    {"sgd", plan::BucketUse::trained, true, true, kMomentum, buildSgd},
    {"lion", plan::BucketUse::trained, true, true, kMoment, buildLion},
    {"router_bias", plan::BucketUse::routerBias, true, false, {}, buildRouterBias},
    {"load_counter", plan::BucketUse::loadCounter, true, false, {}, nullptr},
    {"frozen", plan::BucketUse::frozen, false, false, {}, nullptr}};

} // namespace

const UpdateRule &ruleOf(BucketOp bucket) {
  const auto optimizer = nameOf(trainingOf(bucket->getParentOfType<ModuleOp>()).optimizer);
  return *llvm::find_if(kRules, [&](const UpdateRule &rule) {
    return StringRef(nameOf(rule.use)) == bucket.getUse() &&
           (rule.use != plan::BucketUse::trained || rule.name == StringRef(optimizer));
  });
}

} // namespace mgc
