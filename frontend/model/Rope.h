// Rotary position embedding: what a config.json says about it -> one inverse frequency per pair of head
// dimensions.
#pragma once

#include "frontend/model/Config.h"

namespace mgc::frontend {

// Rotates the first 2 n dimensions of a head, n = inverseFrequencies.size(): pairs (i, i + n), or neighbours (2 i, 2 i + 1), by
// position * inverseFrequencies[i].
struct Rope {
  double theta = 10000;
  std::vector<double> inverseFrequencies;
  bool interleaved = false; // neighbours
  double scale = 1;         // what is rotated is multiplied by it
  double scoreScale = 1;    // DeepSeek multiplies the scores by its square
  bool operator==(const Rope &) const = default;
};

struct RopeScaling {
  enum class Kind { none, linear, llama3, yarn } kind = Kind::none;
  double factor = 1;
  double lowFrequencyFactor = 1, highFrequencyFactor = 4; // llama3
  double originalPositions = 0;                           // llama3, yarn
  double fastTurns = 32, slowTurns = 1;                   // yarn: beta_fast, beta_slow
  bool truncate = true;                                   // yarn
};

// theta^(-2i / rotaryDim), scaled:
//   linear   f / factor
//   llama3   by wavelength w = 2 pi / f against the original context c: f where w < c / high, f / factor
//   where
//            w > c / low, between them (1 - t) f / factor + t f with t = (c / w - low) / (high - low).
//   yarn     by place i: f up to the place that turns fastTurns times within the original context, f / factor from the one that
//            turns slowTurns times on, and linear between them; truncated: whole places.
std::vector<double> inverseFrequencies(double theta, int64_t rotaryDim, const RopeScaling &scaling);

// Reads either spelling: rope_theta and rope_scaling, or rope_parameters. `defaultTheta` 0: theta is
// required. `defaultPart`: of partial_rotary_factor; none: all of a head rotates.
Rope readRope(Config &config, int64_t headDim, double defaultTheta, std::optional<double> defaultPart = {});

} // namespace mgc::frontend
