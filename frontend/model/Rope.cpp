#include "frontend/model/Rope.h"
#include <algorithm>
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

// How much of f / factor place i has under yarn: 0 for fast ones, 1 for slow ones (Peng et al. 2023).
static double yarnShare(double theta, int64_t rotaryDim, const RopeScaling &scaling, size_t i) {
  const double dim = static_cast<double>(rotaryDim);
  const auto placeOf = [&](double turns) {
    return dim * std::log(scaling.originalPositions / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double first = placeOf(scaling.fastTurns), last = placeOf(scaling.slowTurns);
  if (scaling.truncate)
    first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0), last = std::min(last, dim - 1);
  if (first == last)
    last += 0.001;
  return std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
}

std::vector<double> inverseFrequencies(double theta, int64_t rotaryDim, const RopeScaling &scaling) {
  std::vector<double> frequencies(rotaryDim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double plain = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotaryDim));
    const double share =
        scaling.kind == RopeScaling::Kind::yarn ? yarnShare(theta, rotaryDim, scaling, i) : 0;
    frequencies[i] = scaling.kind == RopeScaling::Kind::yarn
                         ? share * plain / scaling.factor + (1 - share) * plain
                         : scaled(plain, scaling);
  }
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

static double yarnScale(double factor, double mscale) { return 0.1 * mscale * std::log(factor) + 1; }

static void readYarn(Config &config, RopeScaling &scaling, Rope &rope) {
  scaling.factor = config.requiredNumber("factor", 1, kLargest);
  scaling.originalPositions = config.requiredNumber("original_max_position_embeddings", 1, kLargest);
  scaling.fastTurns = config.number("beta_fast", 32, 1e-6, kLargest);
  scaling.slowTurns = config.number("beta_slow", 1, 1e-6, kLargest);
  scaling.truncate = config.flag("truncate", true);
  const double mscale = config.number("mscale", 0, 0, 1e3), all = config.number("mscale_all_dim", 0, 0, 1e3);
  if (scaling.factor < 1) // refused
    return;
  const bool hasBoth = mscale != 0 && all != 0;
  rope.scale = hasBoth ? yarnScale(scaling.factor, mscale) / yarnScale(scaling.factor, all)
                       : yarnScale(scaling.factor, 1);
  rope.scale = config.number("attention_factor", rope.scale, 1e-6, 1e6);
  rope.scoreScale = all != 0 ? yarnScale(scaling.factor, all) : 1;
}

// The fields of rope_scaling or rope_parameters, rope_theta and partial_rotary_factor aside.
static RopeScaling readScaling(Config &config, Rope &rope) {
  using Kind = RopeScaling::Kind;
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"default", Kind::none}, {"linear", Kind::linear}, {"llama3", Kind::llama3}, {"yarn", Kind::yarn}};
  if (config.has("rope_type") && config.has("type") &&
      config.word("rope_type", "") != config.word("type", ""))
    config.refuse("type", "and rope_type differ", "keep one of them");
  RopeScaling scaling;
  size_t before = config.report().count();
  scaling.kind = config.choice<Kind>(config.has("rope_type") ? "rope_type" : "type", "default", kKinds);
  if (config.report().count() != before)
    return scaling; // what else stands there belongs to a kind nobody here knows
  if (scaling.kind == Kind::linear)
    scaling.factor = config.requiredNumber("factor", 1, kLargest);
  if (scaling.kind == Kind::llama3)
    readLlama3(config, scaling);
  if (scaling.kind == Kind::yarn)
    readYarn(config, scaling, rope);
  config.finish("this rope type");
  return scaling;
}

// How many of so many dimensions rotate: of transformers 5 rope_parameters say it.
static int64_t readRotaryDim(Config &config, Config *parameters, int64_t headDim,
                             std::optional<double> defaultPart) {
  constexpr std::string_view key = "partial_rotary_factor";
  if (!defaultPart) {
    if (parameters)
      parameters->expect(key, "1.0");
    return headDim;
  }
  const double outside = config.number(key, *defaultPart, 1e-6, 1);
  const double part = parameters ? parameters->number(key, outside, 1e-6, 1) : outside;
  const auto rotated = static_cast<int64_t>(part * static_cast<double>(headDim));
  if (headDim > 0 && (rotated % 2 != 0 || rotated == 0 || 2 * headDim % rotated != 0))
    config.report().add("{} = {} of head_dim = {} are {} dimensions; expected an even number that divides {}",
                        key, part, headDim, rotated, 2 * headDim);
  return rotated;
}

static constexpr double kNoTheta = 0;

static double readTheta(Config &config) { return config.number("rope_theta", kNoTheta, 1, kLargest); }

Rope readRope(Config &config, int64_t headDim, double defaultTheta, std::optional<double> defaultPart) {
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
  }
  const int64_t rotaryDim = readRotaryDim(config, parameters ? &*parameters : nullptr, headDim, defaultPart);
  if (parameters)
    scaling = readScaling(*parameters, rope);
  else if (scalingFields)
    scaling = readScaling(*scalingFields, rope);
  if (rope.theta == kNoTheta)
    rope.theta = defaultTheta;
  bool good = config.report().count() == before;
  if (good && rope.theta == kNoTheta)
    config.report().add("rope_theta is missing, but required");
  if (good && rope.theta != kNoTheta)
    rope.inverseFrequencies = inverseFrequencies(rope.theta, rotaryDim, scaling);
  return rope;
}

} // namespace mgc::frontend
