#include "frontend/model/Rope.h"
#include <cmath>
#include <numbers>

namespace mgc::frontend {

static double scaled(double frequency, const RopeScaling &scaling) {
  if (scaling.kind == RopeScaling::Kind::none)
    return frequency;
  double slow = frequency / scaling.factor;
  if (scaling.kind == RopeScaling::Kind::linear)
    return slow;
  double turns =
      scaling.originalPositions * frequency / (2 * std::numbers::pi); // within the original context
  if (turns > scaling.highFrequencyFactor)
    return frequency;
  if (turns < scaling.lowFrequencyFactor)
    return slow;
  double t =
      (turns - scaling.lowFrequencyFactor) / (scaling.highFrequencyFactor - scaling.lowFrequencyFactor);
  return (1 - t) * slow + t * frequency;
}

std::vector<double> inverseFrequencies(double theta, int64_t headDim, const RopeScaling &scaling) {
  std::vector<double> frequencies(headDim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] =
        scaled(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(headDim)), scaling);
  return frequencies;
}

static constexpr double kLargest = 1e15;

static void readLlama3(Config &rope, RopeScaling &scaling) {
  scaling.factor = rope.requiredNumber("factor", 1, kLargest);
  scaling.lowFrequencyFactor = rope.requiredNumber("low_freq_factor", 1e-6, kLargest);
  scaling.highFrequencyFactor = rope.requiredNumber("high_freq_factor", 1e-6, kLargest);
  scaling.originalPositions = rope.requiredNumber("original_max_position_embeddings", 1, kLargest);
  if (scaling.highFrequencyFactor <= scaling.lowFrequencyFactor)
    rope.refuse("high_freq_factor",
                fmt::format("is not above low_freq_factor = {}", scaling.lowFrequencyFactor), "");
}

// The fields of rope_scaling or rope_parameters, rope_theta aside.
static RopeScaling readScaling(Config &rope) {
  using Kind = RopeScaling::Kind;
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"default", Kind::none}, {"linear", Kind::linear}, {"llama3", Kind::llama3}};
  if (rope.has("rope_type") && rope.has("type") && rope.word("rope_type", "") != rope.word("type", ""))
    rope.refuse("type", "and rope_type differ", "keep one of them");
  RopeScaling scaling;
  size_t before = rope.report().count();
  scaling.kind = rope.choice<Kind>(rope.has("rope_type") ? "rope_type" : "type", "default", kKinds);
  if (rope.report().count() != before)
    return scaling; // what else stands there belongs to a kind nobody here knows
  if (scaling.kind == Kind::linear)
    scaling.factor = rope.requiredNumber("factor", 1, kLargest);
  if (scaling.kind == Kind::llama3)
    readLlama3(rope, scaling);
  rope.expect("partial_rotary_factor", "1.0");
  rope.finish("this rope type");
  return scaling;
}

static constexpr double kNoTheta = 0;

static double readTheta(Config &config) { return config.number("rope_theta", kNoTheta, 1, kLargest); }

Rope readRope(Config &config, int64_t headDim, double defaultTheta) {
  Rope rope;
  RopeScaling scaling;
  size_t before = config.report().count();
  rope.theta = readTheta(config);
  std::optional<Config> scalingFields = config.child("rope_scaling");
  std::optional<Config> parameters = config.child("rope_parameters");
  if (scalingFields && parameters)
    config.refuse("rope_scaling", "and rope_parameters are two spellings of one thing", "keep one of them");
  if (parameters) {
    double theta = readTheta(*parameters);
    if (theta != kNoTheta && rope.theta != kNoTheta && theta != rope.theta)
      config.refuse("rope_theta", fmt::format("and rope_parameters.rope_theta = {} differ", theta),
                    "keep one of them");
    rope.theta = theta != kNoTheta ? theta : rope.theta;
    scaling = readScaling(*parameters);
  } else if (scalingFields) {
    scaling = readScaling(*scalingFields);
  }
  if (rope.theta == kNoTheta)
    rope.theta = defaultTheta;
  bool good = config.report().count() == before;
  if (good && rope.theta == kNoTheta)
    config.report().add("rope_theta is missing, but required");
  if (good && rope.theta != kNoTheta)
    rope.inverseFrequencies = inverseFrequencies(rope.theta, headDim, scaling);
  return rope;
}

} // namespace mgc::frontend
