// The f32 numbers that the runtime reads after a step: its results. Their order in a rank's memory is that of the enumeration; names
// are those of the IR and of logs.
#pragma once

#include "plan/Reflection.h"

#include <array>

namespace mgc::plan {

// lossSum / tokens is the cross-entropy. From kFirstLossTerm on: the other terms of the loss, each already weighted, 0 where the
// model has no such term (docs/experts.md, docs/multi-token-prediction.md).
enum class StepTotal { lossSum, tokens, gradNorm, seqAuxLoss, zLoss, auxLoss, mtpLoss };
template <>
inline constexpr auto enumNames<StepTotal> = std::to_array<std::string_view>(
    {"loss_sum", "tokens", "grad_norm", "seq_aux_loss", "z_loss", "aux_loss", "mtp_loss"});
inline constexpr const auto &kResults = enumNames<StepTotal>;
constexpr size_t indexOf(StepTotal total) { return static_cast<size_t>(total); }
inline constexpr size_t kFirstLossTerm = indexOf(StepTotal::seqAuxLoss);

} // namespace mgc::plan
