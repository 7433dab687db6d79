// The names of the values of the plan's enumerations, in plan.json and in messages: enumNames<E>[value].
#pragma once

#include "plan/Plan.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace mgc::plan {

template <typename E> inline constexpr auto enumNames = nullptr;
template <>
inline constexpr auto enumNames<AxisRole> =
    std::to_array<std::string_view>({"tensor", "sequence", "data", "stage"});
template <> inline constexpr auto enumNames<DType> = std::to_array<std::string_view>({"f32", "bf16", "i32"});
template <> inline constexpr auto enumNames<Target> = std::to_array<std::string_view>({"cpu", "cuda"});
template <>
inline constexpr auto enumNames<KernelLevel> = [] {
  std::array<std::string_view, kKernelLevels.size()> names;
  std::ranges::transform(kKernelLevels, names.begin(), &KernelLevelFacts::name);
  return names;
}();
template <>
inline constexpr auto enumNames<InitKind> = std::to_array<std::string_view>({"normal", "zeros", "ones"});
template <>
inline constexpr auto enumNames<Scalar::Kind> =
    std::to_array<std::string_view>({"linear", "instance", "seed"});
template <>
inline constexpr auto enumNames<GemmPath> =
    std::to_array<std::string_view>({"rule", "whole", "rows", "columns"});
template <>
inline constexpr auto enumNames<Epilogue> = std::to_array<std::string_view>({"none", "bias", "gelu"});
template <>
inline constexpr auto enumNames<OperandUse> = std::to_array<std::string_view>({"read", "written", "updated"});
template <> inline constexpr auto enumNames<ReduceKind> = std::to_array<std::string_view>({"sum", "max"});
template <>
inline constexpr auto enumNames<Collective::Kind> =
    std::to_array<std::string_view>({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"});
template <>
inline constexpr auto enumNames<Move::Kind> =
    std::to_array<std::string_view>({"copy", "fill", "slice", "demote"});
template <>
inline constexpr auto enumNames<ScheduleStep::Kind> =
    std::to_array<std::string_view>({"run", "send", "recv"});
template <>
inline constexpr auto enumNames<Task> = std::to_array<std::string_view>(
    {"begin", "forward", "backward", "input", "weight", "gradients", "reduce", "update"});
template <>
inline constexpr auto enumNames<Input::Kind> =
    std::to_array<std::string_view>({"tokens", "labels", "lossWeights", "positions", "keyPositions",
                                     "samples", "positionIds", "documentStarts", "keyDocumentStarts"});
// The alternatives of Instruction::body, in order.
inline constexpr auto kInstructionNames =
    std::to_array<std::string_view>({"rowKernel", "gemm", "attention", "collective", "move"});

} // namespace mgc::plan
