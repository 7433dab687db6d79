// Limits of sizes: far above every model, low enough that the bytes of all parameters are counted in 64 bits.
// Products with the sequence and the batch are checked with the layout (frontend/layout/LayoutChecks.cpp).
#pragma once

#include <cstdint>

namespace mgc::frontend {

inline constexpr int64_t kMaxHidden = 1 << 18, kMaxHeads = 1 << 12, kMaxHeadDim = 1 << 12, kMaxLayers = 1 << 12,
                         kMaxFfn = 1 << 24, kMaxVocabulary = 1 << 28, kMaxPositions = 1 << 30, kMaxExperts = 1 << 12,
                         kMaxChosen = 64, kMaxTokenTypes = 1 << 10, kMaxChannels = 1 << 6, kMaxBiasBuckets = 1 << 10,
                         kMaxPixels = 1 << 12, // pixels of an edge of an image
    kMaxRouterGroups = 32;                     // route_c4
inline constexpr double kMaxDropout = 0.999;

} // namespace mgc::frontend
