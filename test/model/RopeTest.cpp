// Rotary frequencies against the published formulas, written out independently.
#include "test/frontend/Configs.h"
#include <cmath>
#include <numbers>

using namespace mgc;
using namespace mgc::frontend;

namespace {

std::vector<double> frequenciesOf(const json &config) {
  const ModelDescription found = model(config);
  return inverseFrequencies(*found.blockOf(0).attention.rope, found.maxPositions);
}

TEST(Rope, PlainFrequencies) {
  std::vector<double> found = frequenciesOf(tinyDecoder("llama"));
  const std::vector<double> expected = {1, 0.1, 0.01, 0.001}; // 10000^(-i/4)
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-15);
}

TEST(Rope, LinearDividesByTheFactor) {
  std::vector<double> plain = frequenciesOf(tinyDecoder("llama"));
  std::vector<double> linear =
      frequenciesOf(with(tinyDecoder("llama"), {{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}));
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_DOUBLE_EQ(linear[i], plain[i] / 4);
}

// 8 pairs, of which yarn keeps those before place 1, divides those from 5 on, and blends between.
TEST(Rope, YarnKeepsBlendsAndDivides) {
  const double theta = 100, factor = 4, original = 32;
  const RopeScaling whole{
      .kind = RopeKind::yarn, .factor = factor, .originalPositions = original, .fastTurns = 4, .slowTurns = 1};
  RopeScaling exact = whole;
  exact.truncate = false;
  const auto placeOf = [&](double turns) {
    return 16 * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  for (const auto &[scaling, first, last] :
       {std::tuple(whole, std::floor(placeOf(4)), std::ceil(placeOf(1))), {exact, placeOf(4), placeOf(1)}}) {
    const std::vector<double> found = inverseFrequencies({.theta = theta, .dim = 16, .scaling = scaling}, 1);
    for (int i = 0; i < 8; ++i) {
      const double plain = std::pow(theta, -i / 8.0), share = std::clamp((i - first) / (last - first), 0.0, 1.0);
      EXPECT_NEAR(found[i], (1 - share) * plain + share * plain / factor, 1e-15) << i;
    }
  }
}

// The default scale of what rotates, and what the fields make of it.
TEST(Rope, YarnScales) {
  const auto scaleOf = [](const json &more) {
    json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}};
    yarn.update(more);
    return model(with(tinyDecoder("llama"), {{"rope_scaling", yarn}})).blockOf(0).attention.rope->scale;
  };
  EXPECT_DOUBLE_EQ(scaleOf(json::object()), 0.1 * std::log(4) + 1);
  EXPECT_DOUBLE_EQ(scaleOf({{"attention_factor", 1.5}}), 1.5);
  EXPECT_DOUBLE_EQ(scaleOf({{"mscale", 2}, {"mscale_all_dim", 1}}), (0.2 * std::log(4) + 1) / (0.1 * std::log(4) + 1));
}

// Llama 3.1's own numbers: 64 frequencies, all three bands.
TEST(Rope, Llama3KeepsBlendsAndDivides) {
  const double theta = 500000, factor = 8, low = 1, high = 4, original = 8192;
  RopeScaling scaling{RopeKind::llama3, factor, low, high, original};
  std::vector<double> found = inverseFrequencies({.theta = theta, .dim = 128, .scaling = scaling}, 1);
  ASSERT_EQ(found.size(), 64u);
  int kept = 0, blended = 0, divided = 0;
  for (int i = 0; i < 64; ++i) {
    double frequency = 1 / std::pow(theta, i / 64.0), wavelength = 2 * std::numbers::pi / frequency, expected;
    if (wavelength < original / high) {
      expected = frequency, ++kept;
    } else if (wavelength > original / low) {
      expected = frequency / factor, ++divided;
    } else {
      double smooth = (original / wavelength - low) / (high - low);
      expected = (1 - smooth) * frequency / factor + smooth * frequency, ++blended;
    }
    EXPECT_NEAR(found[i] / expected, 1, 1e-13) << i;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(blended, 0);
  EXPECT_GT(divided, 0);
}

TEST(Rope, Llama3KnownValues) { // factor 8 over 32 positions, theta 100, head size 8
  json scaling = {{"rope_type", "llama3"},
                  {"factor", 8.0},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_max_position_embeddings", 32}};
  std::vector<double> found =
      frequenciesOf(with(tinyDecoder("llama"), {{"rope_theta", 100.0}, {"rope_scaling", scaling}}));
  const std::vector<double> expected = {1, 0.09583998588296266, 0.0125, 0.003952847075210474};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-12);
}

// Sequences up to the first context have the plain frequencies; longer ones those of a larger theta.
TEST(Rope, DynamicGrowsTheta) {
  Rope rope{.theta = 100, .dim = 8};
  const std::vector<double> plain = inverseFrequencies(rope, 16);
  rope.scaling = {.kind = RopeKind::dynamic, .factor = 2, .originalPositions = 32};
  EXPECT_EQ(inverseFrequencies(rope, 32), plain);
  const double theta = 100 * std::pow(2 * 64 / 32.0 - 1, 8 / 6.0);
  const std::vector<double> found = inverseFrequencies(rope, 64);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_DOUBLE_EQ(found[i], std::pow(theta, -double(i) / 4));
}

TEST(Rope, LongropeTakesFactorsByTheLength) {
  const json scaling = {{"type", "longrope"},
                        {"short_factor", {1, 1, 2, 4}},
                        {"long_factor", {1, 2, 4, 8}},
                        {"original_max_position_embeddings", 16}};
  const ModelDescription found = model(with(tinyDecoder("llama"), {{"rope_scaling", scaling}}));
  const Rope &rope = *found.blockOf(0).attention.rope;
  EXPECT_DOUBLE_EQ(rope.scale, std::sqrt(1 + std::log(64.0 / 16) / std::log(16.0)));
  const std::vector<double> plain = frequenciesOf(tinyDecoder("llama")), shortOnes = inverseFrequencies(rope, 16),
                            longOnes = inverseFrequencies(rope, 17);
  const std::vector<double> shortFactors = {1, 1, 2, 4}, longFactors = {1, 2, 4, 8};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(shortOnes[i], plain[i] / shortFactors[i]);
    EXPECT_DOUBLE_EQ(longOnes[i], plain[i] / longFactors[i]);
  }
}

} // namespace
