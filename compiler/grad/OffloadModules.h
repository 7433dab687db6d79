// Names of what a layer saves: the parts of it whose input a saved value is, as Megatron-LM's --offload-modules calls them
// (dialects/mg/training/OffloadWords.h).
#pragma once

#include "dialects/mg/Mg.h"

namespace mgc {

// Empty: of none that has a name. In: a value of a forward whose ops have kModulesAttr, and which alone use it.
//   attn_norm   what enters the layer               attn_proj   what attention makes
//   qkv_linear  what the norm before attention makes mlp_norm   what the norm after attention reads
//   core_attn   what attention reads, and its sums  mlp         what a dense feed-forward saves
//   expert_fc1  rows that experts take              moe_act     what their activation reads
llvm::StringRef offloadModuleOf(mlir::Value value);

} // namespace mgc
