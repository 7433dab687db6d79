// Words of Megatron-LM's options of offloading activations (docs/memory.md).
#pragma once

#include <array>
#include <string_view>

namespace mgc {

// A part of a layer whose saved inputs may be on the host. mg-grad says of each saved value of which it is (kOffloadAttr).
struct OffloadModule {
  std::string_view name;
  bool isRecomputed = false; // its input is recomputed, unless all is saved
  std::string_view of = "";  // the module of kRecomputeModules that it is a part of; empty: every layer has it
};

inline constexpr auto kOffloadModules = std::to_array<OffloadModule>({{.name = "attn_norm"},
                                                                      {.name = "qkv_linear", .isRecomputed = true},
                                                                      {.name = "core_attn"},
                                                                      {.name = "attn_proj"},
                                                                      {.name = "mlp_norm"},
                                                                      {.name = "mlp", .of = "mlp"},
                                                                      {.name = "expert_fc1", .of = "moe"},
                                                                      {.name = "moe_act", .of = "moe"}});

} // namespace mgc
