// Rotary position embedding: what a config.json says about it -> one inverse frequency per pair of head
// dimensions.
#pragma once

#include "frontend/model/Config.h"

namespace mgc::frontend {

// Rotates pairs (i, i + headDim / 2) by position * inverseFrequencies[i].
struct Rope {
  double theta = 10000;
  std::vector<double> inverseFrequencies; // headDim / 2
  bool operator==(const Rope &) const = default;
};

struct RopeScaling {
  enum class Kind { none, linear, llama3 } kind = Kind::none;
  double factor = 1;
  double lowFrequencyFactor = 1, highFrequencyFactor = 4; // llama3
  double originalPositions = 0;                           // llama3
};

// theta^(-2i / headDim), scaled:
//   linear   f / factor
//   llama3   by wavelength w = 2 pi / f against the original context c: f where w < c / high, f / factor
//   where
//            w > c / low, between them (1 - t) f / factor + t f with t = (c / w - low) / (high - low).
std::vector<double> inverseFrequencies(double theta, int64_t headDim, const RopeScaling &scaling);

// Reads either spelling: rope_theta and rope_scaling, or rope_parameters. `defaultTheta` 0: theta is
// required.
Rope readRope(Config &config, int64_t headDim, double defaultTheta);

} // namespace mgc::frontend
