// The optimizers: their names, the numbers by which a run steers them, and what they keep. Update rules
// (compiler/step/UpdateRules.h) have what they compute.
#pragma once

#include "plan/Reflection.h"

#include <array>
#include <cstdint>

namespace mgc::plan {

enum class Optimizer : uint8_t { adamw, sgd, lion }; // 0: the default
template <> inline constexpr auto enumNames<Optimizer> = std::to_array<std::string_view>({"adamw", "sgd", "lion"});

struct OptimizerNumber {
  Optimizer of;
  std::string_view name; // the step scalar; no other number has it, of other optimizers neither
  std::string_view flag; // mgrun's
  double standard;
  bool isShare;                     // at least 0 and below 1; else above 0
  std::string_view correction = ""; // the step scalar that is 1 - number^step, the first step being 1; empty: none
};

// Defaults are Megatron-LM's.
inline constexpr auto kOptimizerNumbers =
    std::to_array<OptimizerNumber>({{Optimizer::adamw, "beta1", "--adam-beta1", 0.9, true, "bias_correction1"},
                                    {Optimizer::adamw, "beta2", "--adam-beta2", 0.999, true, "bias_correction2"},
                                    {Optimizer::adamw, "eps", "--adam-eps", 1e-8, false},
                                    {Optimizer::sgd, "momentum", "--sgd-momentum", 0.9, true},
                                    {Optimizer::lion, "lion_beta1", "--lion-beta1", 0.95, true},
                                    {Optimizer::lion, "lion_beta2", "--lion-beta2", 0.98, true}});

// A state that an optimizer keeps of each element: f32, zeros at first. Names are PyTorch's; a checkpoint has them as
// state.TENSOR.NAME.
struct OptimizerState {
  Optimizer of;
  std::string_view name;
};

// States of an optimizer are in the order of operands and results of its op.
inline constexpr auto kOptimizerStates = std::to_array<OptimizerState>({{Optimizer::adamw, "exp_avg"},
                                                                        {Optimizer::adamw, "exp_avg_sq"},
                                                                        {Optimizer::sgd, "momentum_buffer"},
                                                                        {Optimizer::lion, "exp_avg"}});

} // namespace mgc::plan
