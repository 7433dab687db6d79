// The f32 numbers that the runtime writes before a step. Their order in a rank's memory is that of kStepScalars; names are those of the
// IR.
#pragma once

#include "plan/Optimizers.h"

namespace mgc::plan {

// The scalars of all optimizers; behind them, in kStepScalars, those of each, kOptimizerNumbers and their corrections.
enum class StepScalar { lr, weightDecay, clip, routerBiasRate };
template <>
inline constexpr auto enumNames<StepScalar> =
    std::to_array<std::string_view>({"lr", "weight_decay", "clip", "router_bias_rate"});
constexpr size_t indexOf(StepScalar scalar) { return static_cast<size_t>(scalar); }

inline constexpr size_t kOptimizerScalars = [] {
  size_t count = 0;
  for (const OptimizerNumber &number : kOptimizerNumbers)
    count += number.correction.empty() ? 1 : 2;
  return count;
}();
inline constexpr auto kStepScalars = [] {
  std::array<std::string_view, enumNames<StepScalar>.size() + kOptimizerScalars> names;
  size_t next = 0;
  for (std::string_view name : enumNames<StepScalar>)
    names[next++] = name;
  for (const OptimizerNumber &number : kOptimizerNumbers)
    for (std::string_view name : {number.name, number.correction})
      if (!name.empty())
        names[next++] = name;
  return names;
}();
// Precondition: there is one of the name.
constexpr size_t scalarNamed(std::string_view name) {
  size_t index = 0;
  while (kStepScalars[index] != name)
    ++index;
  return index;
}
static_assert(
    [] {
      for (size_t index = 0; index < kStepScalars.size(); ++index)
        if (scalarNamed(kStepScalars[index]) != index)
          return false;
      return true;
    }(),
    "two step scalars have one name: kOptimizerNumbers, kept by all optimizers together");

} // namespace mgc::plan
