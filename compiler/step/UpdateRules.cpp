// See UpdateRules.h.
#include "compiler/step/UpdateRules.h"
#include "plan/Optimizers.h"

#include <array>

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

UpdateRule trainedBy(plan::Optimizer optimizer,
                     Operation *(*build)(OpBuilder &builder, Location loc, const UpdateOperands &operands)) {
  UpdateRule rule{nameOf(optimizer), plan::BucketUse::trained, /*hasGradients=*/true, /*isInNorm=*/true, {}, build};
  for (const plan::OptimizerState &state : plan::kOptimizerStates)
    if (state.of == optimizer)
      rule.states.push_back(state.name);
  return rule;
}

// In the order of plan::Optimizer.
constexpr std::array kTrained = {buildAdamW, buildSgd, buildLion};
static_assert(kTrained.size() == plan::enumNames<plan::Optimizer>.size());

} // namespace

const UpdateRule &ruleOf(plan::BucketUse use, plan::Optimizer optimizer) {
  static const std::vector<UpdateRule> trained = [] {
    std::vector<UpdateRule> rules;
    for (size_t i = 0; i < kTrained.size(); ++i)
      rules.push_back(trainedBy(plan::Optimizer(i), kTrained[i]));
    return rules;
  }();
  static const UpdateRule others[] = {{"router_bias", plan::BucketUse::routerBias, true, false, {}, buildRouterBias},
                                      {"load_counter", plan::BucketUse::loadCounter, true, false, {}, nullptr},
                                      {"frozen", plan::BucketUse::frozen, false, false, {}, nullptr}};
  const auto *other = llvm::find_if(others, [&](const UpdateRule &rule) { return rule.use == use; });
  return other != std::end(others) ? *other : trained[size_t(optimizer)];
}

const UpdateRule &ruleOf(BucketOp bucket) {
  return ruleOf(plan::valueNamed<plan::BucketUse>(bucket.getUse()).value_or(plan::BucketUse::trained),
                trainingOf(bucket->getParentOfType<ModuleOp>()).optimizer);
}

} // namespace mgc
