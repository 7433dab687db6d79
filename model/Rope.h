// Rotary position embedding: what a config.json says about it -> one inverse frequency per pair of head dimensions.
#pragma once

#include "model/Config.h"

namespace mgc::frontend {

enum class RopeKind { none, linear, dynamic, yarn, llama3, longrope };
std::span<const std::pair<std::string_view, RopeKind>> ropeKinds(); // by their words; the first of each is its name

// How frequencies f = theta^(-2i / dim) change, i the number of the pair:
//   linear   f / factor
//   llama3   by wavelength w = 2 pi / f against the original context c: f where w < c / high, f / factor
//   where
//            w > c / low, between them (1 - t) f / factor + t f with t = (c / w - low) / (high - low).
//   yarn     by pair: f up to the one that turns fastTurns times within the original context, f / factor from the one
//            that turns slowTurns times on, and linear between them; truncated: whole pairs.
//   dynamic  of sequences longer than the original context theta grows:
//            by (factor n / c - (factor - 1))^(dim / (dim - 2)).
//   longrope f / shortFactors[i], of sequences longer than the original context f / longFactors[i] (Phi-3).
struct RopeScaling {
  RopeKind kind = RopeKind::none;
  double factor = 1;
  double lowFrequencyFactor = 1, highFrequencyFactor = 4;  // llama3
  double originalPositions = 0;                            // llama3, yarn, dynamic, longrope
  double fastTurns = 32, slowTurns = 1;                    // yarn: beta_fast, beta_slow
  bool truncate = true;                                    // yarn
  std::vector<double> shortFactors = {}, longFactors = {}; // longrope: dim / 2 of each
  bool operator==(const RopeScaling &) const = default;
};

// Rotates the first `dim` dimensions of a head: pairs (i, i + dim / 2), or neighbours (2 i, 2 i + 1), by
// position * frequency i.
struct Rope {
  double theta = 10000;
  int64_t dim = 0;          // 0, until the description is complete: all of the head
  bool interleaved = false; // neighbours
  RopeScaling scaling = {};
  double scale = 1; // factor of the rotated part
  // Queries at position p are multiplied by 1 + queryGrowth ln(1 + floor(p / scaling.originalPositions)) (Llama 4).
  double queryGrowth = 0;
  bool operator==(const Rope &) const = default;
};

// The frequency of each pair, for sequences of so many positions: dim / 2 numbers.
std::vector<double> inverseFrequencies(const Rope &rope, int64_t positions);

// The names in a file. Fields that a config.json leaves out have defaults.
struct RopeFields {
  double theta = 0;                // 0: it is required
  std::optional<double> part = {}; // how much of a head rotates; none: all, and the file may not say otherwise
  bool interleaved = false;        // neighbours rotate
  std::string_view thetaKey = "rope_theta", partKey = "partial_rotary_factor";
  std::string_view ofLayers =
      {};                   // the key in rope_parameters of these layers, where it may have several: "full_attention"
  bool hasScaling = true;   // rope_scaling is of these layers too
  int64_t maxPositions = 0; // dynamic: the original context, longrope: over it the factor
  double originalPositions = 0; // outside of rope_parameters; 0: the file has none
  bool hasQueryGrowth = false;  // yarn: the class reads llama_4_scaling_beta
};

struct RopeOfFile {
  Rope rope;
  double scoreScale = 1; // yarn with mscale_all_dim: DeepSeek multiplies the scores by its square
};

// Reads either spelling: rope_theta and rope_scaling, or rope_parameters.
RopeOfFile readRope(Config &config, int64_t headDim, RopeFields fields);

} // namespace mgc::frontend
