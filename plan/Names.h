// The names of the values of the plan's enumerations, in plan.json and in messages (Reflection.h); those of
// instructions stand next to their kinds.
#pragma once

#include "plan/Plan.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace mgc::plan {

template <>
inline constexpr auto enumNames<AxisRole> =
    std::to_array<std::string_view>({"tensor", "sequence", "data", "stage"});
template <>
inline constexpr auto enumNames<KernelLevel> = [] {
  std::array<std::string_view, kKernelLevels.size()> names;
  std::ranges::transform(kKernelLevels, names.begin(), &KernelLevelFacts::name);
  return names;
}();
template <>
inline constexpr auto enumNames<InitKind> = std::to_array<std::string_view>({"normal", "zeros", "ones"});
template <>
inline constexpr auto enumNames<ScheduleStep::Kind> =
    std::to_array<std::string_view>({"run", "send", "recv"});
template <>
inline constexpr auto enumNames<Task> = std::to_array<std::string_view>(
    {"begin", "forward", "backward", "input", "weight", "gradients", "reduce", "update"});
template <>
inline constexpr auto enumNames<Input::Kind> = std::to_array<std::string_view>(
    {"tokens", "labels", "lossWeights", "positions", "keyPositions", "samples", "positionIds",
     "documentStarts", "keyDocumentStarts", "stepTokens", "lossShares", "tokenTypes", "documentEnds",
     "keyDocumentEnds", "encoderEnds", "patches", "imagePlaces"});
template <>
inline constexpr auto enumNames<Objective> = std::to_array<std::string_view>({"causal", "masked"});

} // namespace mgc::plan
