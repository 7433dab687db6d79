// See OffloadModules.h.
#include "compiler/grad/OffloadModules.h"

using namespace mlir;

namespace mgc {

static bool isOf(Operation *op, StringRef module) {
  auto modules = op->getAttrOfType<ArrayAttr>(kModulesAttr);
  return modules && llvm::is_contained(modules.getAsValueRange<StringAttr>(), module);
}

static bool isReadBy(Value value, StringRef module) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) { return isOf(user, module); });
}

StringRef offloadModuleOf(Value value) {
  Operation *maker = value.getDefiningOp();
  if (!maker)
    return "attn_norm";
  if (maker->hasTrait<Discontinuous>()) // choices say how many rows there are
    return "";
  if (isOf(maker, "core_attn"))
    return maker->getResult(0) == value ? "attn_proj" : "core_attn";
  if (isReadBy(value, "core_attn"))
    return "core_attn";
  if (isReadBy(value, "moe_act"))
    return "moe_act";
  if (isOf(maker, "moe") || isReadBy(value, "moe"))
    return "expert_fc1";
  if (isOf(maker, "mlp"))
    return "mlp";
  const auto isAttention = [](Operation &op) { return isOf(&op, "core_attn"); };
  const auto attention = llvm::find_if(*maker->getBlock(), isAttention);
  const bool isBefore = attention != maker->getBlock()->end() && maker->isBeforeInBlock(&*attention);
  if (isOf(maker, "layernorm") && isBefore) // others are of queries and keys
    return isa<BlockArgument>(maker->getOperand(0)) ? "qkv_linear" : "core_attn";
  if (isBefore)
    return "core_attn";
  if (!isOf(maker, "layernorm") && isReadBy(value, "layernorm"))
    return "mlp_norm";
  return isReadBy(value, "mlp") || isOf(maker, "layernorm") ? "mlp" : "";
}

} // namespace mgc
