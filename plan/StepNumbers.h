// The f32 numbers that a step exchanges with the runtime: scalars that the runtime writes before the step, and results that it reads
// after. Their order in a rank's memory is that of the enumerations; names are those of the IR and of logs.
#pragma once

#include "plan/Reflection.h"

#include <array>

namespace mgc::plan {

// biasCorrection1 is 1 - beta1^t, biasCorrection2 is 1 - beta2^t.
enum class StepScalar { lr, beta1, beta2, eps, weightDecay, clip, biasCorrection1, biasCorrection2, routerBiasRate };
template <>
inline constexpr auto enumNames<StepScalar> =
    std::to_array<std::string_view>({"lr", "beta1", "beta2", "eps", "weight_decay", "clip", "bias_correction1",
                                     "bias_correction2", "router_bias_rate"});
inline constexpr const auto &kStepScalars = enumNames<StepScalar>;
constexpr size_t indexOf(StepScalar scalar) { return static_cast<size_t>(scalar); }

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
