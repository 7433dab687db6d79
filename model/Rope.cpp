#include "model/Rope.h"
#include <algorithm>
#include <cmath>
#include <numbers>

namespace mgc::frontend {

static double turnsOf(double frequency, double positions) { return positions * frequency / (2 * std::numbers::pi); }

static double llama3(double frequency, const RopeScaling &scaling) {
  const double slow = frequency / scaling.factor, turns = turnsOf(frequency, scaling.originalPositions);
  if (turns > scaling.highFrequencyFactor)
    return frequency;
  if (turns < scaling.lowFrequencyFactor)
    return slow;
  const double t = (turns - scaling.lowFrequencyFactor) / (scaling.highFrequencyFactor - scaling.lowFrequencyFactor);
  return (1 - t) * slow + t * frequency;
}

// How much of f / factor pair i has under yarn: 0 for fast ones, 1 for slow ones (Peng et al. 2023).
static double yarnShare(const Rope &rope, size_t i) {
  const RopeScaling &scaling = rope.scaling;
  const auto dim = static_cast<double>(rope.dim);
  const auto pairOf = [&](double turns) {
    return dim * std::log(scaling.originalPositions / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
  };
  double first = pairOf(scaling.fastTurns), last = pairOf(scaling.slowTurns);
  if (scaling.truncate)
    first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0), last = std::min(last, dim - 1);
  if (first == last)
    last += 0.001;
  return std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
}

static double thetaAt(const Rope &rope, int64_t positions) {
  const RopeScaling &scaling = rope.scaling;
  const auto count = static_cast<double>(positions), dim = static_cast<double>(rope.dim);
  if (scaling.kind != RopeKind::dynamic || count <= scaling.originalPositions)
    return rope.theta;
  const double growth = scaling.factor * count / scaling.originalPositions - (scaling.factor - 1);
  return rope.theta * std::pow(growth, dim / (dim - 2));
}

static double scaled(double frequency, const Rope &rope, size_t i, int64_t positions) {
  const RopeScaling &scaling = rope.scaling;
  const bool isLong = static_cast<double>(positions) > scaling.originalPositions;
  switch (scaling.kind) {
  case RopeKind::none:
  case RopeKind::dynamic:
    return frequency;
  case RopeKind::linear:
    return frequency / scaling.factor;
  case RopeKind::llama3:
    return llama3(frequency, scaling);
  case RopeKind::longrope:
    return frequency / (isLong ? scaling.longFactors : scaling.shortFactors)[i];
  case RopeKind::yarn:
    break;
  }
  const double share = yarnShare(rope, i);
  return share * frequency / scaling.factor + (1 - share) * frequency;
}

std::vector<double> inverseFrequencies(const Rope &rope, int64_t positions) {
  std::vector<double> frequencies(rope.dim / 2);
  const double theta = thetaAt(rope, positions);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double plain = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rope.dim));
    frequencies[i] = scaled(plain, rope, i, positions);
  }
  return frequencies;
}

std::span<const std::pair<std::string_view, RopeKind>> ropeKinds() {
  static constexpr std::pair<std::string_view, RopeKind> kKinds[] = {
      {"default", RopeKind::none},  {"linear", RopeKind::linear}, {"dynamic", RopeKind::dynamic},
      {"llama3", RopeKind::llama3}, {"yarn", RopeKind::yarn},     {"longrope", RopeKind::longrope},
      {"su", RopeKind::longrope}}; // its name in the first files of Phi-3
  return kKinds;
}

static constexpr double kLargest = 1e15;

// The class takes the one outside rope_parameters, then the one in it, then max_position_embeddings.
static double readOriginalPositions(Config &rope, const RopeFields &fields) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  const double outside = fields.originalPositions;
  const double positions =
      rope.number(kKey, outside > 0 ? outside : static_cast<double>(fields.maxPositions), 1, kLargest);
  if (outside > 0 && positions != outside)
    rope.refuse(kKey, fmt::format("and the one outside, {}, differ", outside),
                "the class takes the one outside; expected the same in both");
  return positions;
}

static void readLlama3(Config &rope, const RopeFields &fields, RopeScaling &scaling) {
  scaling.factor = rope.requiredNumber("factor", 1, kLargest);
  scaling.lowFrequencyFactor = rope.requiredNumber("low_freq_factor", 1e-6, kLargest);
  scaling.highFrequencyFactor = rope.requiredNumber("high_freq_factor", 1e-6, kLargest);
  scaling.originalPositions = readOriginalPositions(rope, fields);
  if (scaling.highFrequencyFactor <= scaling.lowFrequencyFactor)
    rope.refuse("high_freq_factor", fmt::format("is not above low_freq_factor = {}", scaling.lowFrequencyFactor), "");
}

static double yarnScale(double factor, double mscale) { return 0.1 * mscale * std::log(factor) + 1; }

static void readYarn(Config &config, const RopeFields &fields, RopeScaling &scaling, RopeOfFile &file) {
  scaling.factor = config.requiredNumber("factor", 1, kLargest);
  scaling.originalPositions = readOriginalPositions(config, fields);
  scaling.fastTurns = config.number("beta_fast", 32, 1e-6, kLargest);
  scaling.slowTurns = config.number("beta_slow", 1, 1e-6, kLargest);
  scaling.truncate = config.flag("truncate", true);
  if (fields.hasQueryGrowth)
    file.rope.queryGrowth = config.number("llama_4_scaling_beta", 0, 0, 1e3);
  else
    config.expect("llama_4_scaling_beta", "0.0");
  const double mscale = config.number("mscale", 0, 0, 1e3), all = config.number("mscale_all_dim", 0, 0, 1e3);
  if (scaling.factor < 1) // refused
    return;
  const bool hasBoth = mscale != 0 && all != 0;
  const double scale =
      hasBoth ? yarnScale(scaling.factor, mscale) / yarnScale(scaling.factor, all) : yarnScale(scaling.factor, 1);
  file.rope.scale = config.number("attention_factor", scale, 1e-6, 1e6);
  file.scoreScale = all != 0 ? yarnScale(scaling.factor, all) : 1;
}

static std::vector<double> readFactors(Config &config, std::string_view key, int64_t pairs) {
  const std::vector<double> factors = config.numbers(key, 1e-6, kLargest);
  if (static_cast<int64_t>(factors.size()) != pairs && pairs > 0)
    config.refuse(key, fmt::format("has {} factors", factors.size()),
                  fmt::format("expected {}: one for each pair of dimensions that rotates", pairs));
  return factors;
}

static void readLongrope(Config &config, const RopeFields &fields, RopeScaling &scaling, Rope &rope, int64_t headDim) {
  const int64_t pairs = (rope.dim > 0 ? rope.dim : headDim) / 2;
  scaling.originalPositions = readOriginalPositions(config, fields);
  scaling.shortFactors = readFactors(config, "short_factor", pairs);
  scaling.longFactors = readFactors(config, "long_factor", pairs);
  const double growth = static_cast<double>(fields.maxPositions) / scaling.originalPositions;
  const double factor = config.number("factor", growth, 1e-6, kLargest);
  const double scale = factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(scaling.originalPositions)) : 1;
  rope.scale = config.number("attention_factor", scale, 1e-6, 1e6);
}

// The fields of rope_scaling or rope_parameters, theta and part aside.
static RopeScaling readScaling(Config &config, const RopeFields &fields, int64_t headDim, RopeOfFile &file) {
  config.setClass(*classFieldsOf(kRopeFields));
  if (config.has("rope_type") && config.has("type") && config.word("rope_type", "") != config.word("type", ""))
    config.refuse("type", "and rope_type differ", "keep one of them");
  RopeScaling scaling;
  size_t before = config.report().count();
  scaling.kind = config.choice<RopeKind>(config.has("rope_type") ? "rope_type" : "type", "default", ropeKinds());
  if (config.report().count() != before)
    return scaling; // the other fields belong to a kind that is not known here
  switch (scaling.kind) {
  case RopeKind::none:
    break;
  case RopeKind::linear:
    scaling.factor = config.requiredNumber("factor", 1, kLargest);
    break;
  case RopeKind::dynamic: // the class starts from max_position_embeddings, whatever stands here
    scaling.factor = config.requiredNumber("factor", 1, kLargest);
    scaling.originalPositions = static_cast<double>(fields.maxPositions);
    break;
  case RopeKind::llama3:
    readLlama3(config, fields, scaling);
    break;
  case RopeKind::yarn:
    readYarn(config, fields, scaling, file);
    break;
  case RopeKind::longrope:
    readLongrope(config, fields, scaling, file.rope, headDim);
    break;
  }
  config.finish("this rope type");
  return scaling;
}

// How many of so many dimensions rotate: of transformers 5 rope_parameters say it.
static int64_t readRotaryDim(Config &config, Config *parameters, int64_t headDim, const RopeFields &fields) {
  constexpr std::string_view kKey = "partial_rotary_factor";
  if (!fields.part) {
    for (Config *each : {&config, parameters})
      if (each)
        each->expect(kKey, "1.0");
    return 0;
  }
  const double outside = config.number(fields.partKey, *fields.part, 1e-6, 1);
  const double part = parameters ? parameters->number(kKey, outside, 1e-6, 1) : outside;
  if (fields.partKey != kKey && config.number(kKey, part, 1e-6, 1) != part)
    config.refuse(kKey, fmt::format("and {} = {} differ", fields.partKey, part), "the class reads the latter");
  const auto rotated = static_cast<int64_t>(part * static_cast<double>(headDim));
  if (headDim > 0 && (rotated % 2 != 0 || rotated == 0))
    config.report().add("{} = {} of a head of {} are {} dimensions; expected an even number", fields.partKey, part,
                        headDim, rotated);
  return rotated;
}

static constexpr double kNoTheta = 0;

static double readTheta(Config &config, std::string_view key) { return config.number(key, kNoTheta, 1, kLargest); }

static constexpr std::string_view kLayerTypes[] = {"full_attention", "sliding_attention"};

// rope_parameters, or the entry of these layers in it.
static std::optional<Config> readParameters(Config &config, const RopeFields &fields) {
  std::optional<Config> parameters = config.child("rope_parameters");
  if (!parameters || fields.ofLayers.empty())
    return parameters;
  parameters->ignore(kLayerTypes);
  parameters->finish("layers of these types");
  return parameters->child(fields.ofLayers);
}

RopeOfFile readRope(Config &config, int64_t headDim, RopeFields fields) {
  RopeOfFile file;
  if (fields.ofLayers.empty())
    fields.originalPositions = config.number("original_max_position_embeddings", 0, 1, kLargest);
  Rope &rope = file.rope;
  rope.interleaved = fields.interleaved;
  rope.theta = readTheta(config, fields.thetaKey);
  std::optional<Config> scaling = fields.hasScaling ? config.child("rope_scaling") : std::nullopt;
  std::optional<Config> parameters = readParameters(config, fields);
  if (scaling && parameters)
    config.refuse("rope_scaling", "and rope_parameters are two spellings of one thing", "keep one of them");
  if (parameters) {
    const double theta = readTheta(*parameters, "rope_theta");
    if (theta != kNoTheta && rope.theta != kNoTheta && theta != rope.theta)
      config.refuse(fields.thetaKey, fmt::format("and rope_parameters.rope_theta = {} differ", theta),
                    "keep one of them");
    rope.theta = theta != kNoTheta ? theta : rope.theta;
  }
  rope.dim = readRotaryDim(config, parameters ? &*parameters : nullptr, headDim, fields);
  if (parameters)
    rope.scaling = readScaling(*parameters, fields, headDim, file);
  else if (scaling)
    rope.scaling = readScaling(*scaling, fields, headDim, file);
  if (rope.theta == kNoTheta)
    rope.theta = fields.theta;
  if (constexpr std::string_view kKey = "rope_theta";
      fields.thetaKey == "rotary_emb_base" && config.number(kKey, rope.theta, 1, kLargest) != rope.theta)
    config.refuse(kKey, fmt::format("and {} = {} differ", fields.thetaKey, rope.theta), "the class reads the latter");
  return file;
}

} // namespace mgc::frontend
