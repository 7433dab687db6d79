// Modules that predict later tokens (docs/multi-token-prediction.md): for which models and layouts there are any.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

inline constexpr double kStandardLaterFactor = 0.1; // default of --mtp-loss-scaling-factor

// Records what is wrong with the layout's modules for the model, and warns of a checkpoint's modules that are not trained.
void checkLaterTokens(const ModelDescription &model, Layout &layout, Problems &problems);

// Changes the options of modules as far as the model and sequences of so many positions ask for it.
void setNearestLaterTokens(const ModelDescription &model, int64_t sequenceLength, LayoutOptions &options);

} // namespace mgc::frontend
