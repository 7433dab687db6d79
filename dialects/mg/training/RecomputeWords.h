// Words of Megatron-LM's options of recomputation (docs/memory.md).
#pragma once

#include "plan/Reflection.h"

#include <array>
#include <cstdint>

namespace mgc {

// standard: row ops whose operands backward has anyway. none: nothing that takes time. selective: what modules make, and what
// standard does. full: layers save what enters them and choices alone.
enum class RecomputeGranularity : uint8_t { standard, none, selective, full };

// The layers of granularity full. uniform: all, in units of so many neighbours. block: the first so many of each chunk and stack.
enum class RecomputeMethod : uint8_t { uniform, block };

// A part of a layer that selective recomputation names. Ops have the names of those that they belong to as kModulesAttr.
struct RecomputeModule {
  std::string_view name;
  bool isAlways = false; // standard recomputes it
  // Its results are recomputed too; else saved, unless the op that makes them is repeated anyway.
  bool dropsOutputs = false;
  std::string_view needs = ""; // parts that a model without the module lacks
};

inline constexpr auto kRecomputeModules =
    std::to_array<RecomputeModule>({{.name = "core_attn", .needs = "attention"},
                                    {.name = "layernorm", .isAlways = true},
                                    {.name = "mlp", .needs = "dense layers"},
                                    {.name = "moe", .needs = "experts"},
                                    {.name = "moe_act", .isAlways = true, .needs = "experts"},
                                    {.name = "shared_experts", .needs = "shared experts"},
                                    {.name = "mla_up_proj", .dropsOutputs = true, .needs = "latent attention"}});

} // namespace mgc

template <>
inline constexpr auto mgc::plan::enumNames<mgc::RecomputeGranularity> =
    std::to_array<std::string_view>({"standard", "none", "selective", "full"});
template <>
inline constexpr auto mgc::plan::enumNames<mgc::RecomputeMethod> =
    std::to_array<std::string_view>({"uniform", "block"});
