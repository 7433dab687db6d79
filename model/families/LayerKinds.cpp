// Readers of facts that layers differ in: a window, and rotary frequencies.
#include "model/families/Decoder.h"

namespace mgc::frontend {

std::vector<std::string> readLayerTypes(Reading &reading) {
  Config &config = reading.config;
  const size_t before = config.report().count();
  std::vector<std::string> types = config.words("layer_types");
  if (config.report().count() != before)
    return {};
  const auto isKnown = [](const std::string &type) { return type == "full_attention" || type == "sliding_attention"; };
  if (!std::ranges::all_of(types, isKnown))
    config.refuse("layer_types", "is not supported", "supported: full_attention, sliding_attention");
  else if (config.isSet("layer_types") && static_cast<int64_t>(types.size()) != reading.count)
    config.refuse("layer_types", fmt::format("has {} entries", types.size()),
                  fmt::format("expected one for each of num_hidden_layers = {}", reading.count));
  else
    return types;
  return {};
}

LayerRule allButEach(int64_t every) {
  return [every](int64_t layer) { return every == 0 || (layer + 1) % every != 0; };
}

std::vector<bool> readSlidingLayers(Reading &reading, const LayerRule &rule, bool hasWindow) {
  const std::vector<std::string> types = readLayerTypes(reading);
  if (!hasWindow && std::ranges::find(types, "sliding_attention") != types.end())
    reading.config.refuse("layer_types", "names sliding_attention, but no window is in use",
                          "set use_sliding_window to true and sliding_window to its size");
  std::vector<bool> sliding(reading.count);
  for (int64_t layer = 0; layer < reading.count; ++layer)
    sliding[layer] = types.empty() ? rule(layer) : types[layer] == "sliding_attention";
  return sliding;
}

int64_t readWindow(Config &config) { return config.sizeOr("sliding_window", 0, kMaxPositions); }

std::vector<int64_t> readLayerWindows(Reading &reading) {
  Config &config = reading.config;
  const size_t before = config.report().count();
  const bool isUsed = config.flag("use_sliding_window", false);
  const int64_t window = config.countOr("sliding_window", 0, kMaxPositions);
  const int64_t firstWindowed = config.countOr("max_window_layers", 28, kMaxLayers);
  const size_t beforeLayers = config.report().count();
  const std::vector<bool> sliding =
      readSlidingLayers(reading, [&](int64_t layer) { return layer >= firstWindowed; }, isUsed && window > 0);
  if (isUsed && !window && config.report().count() == beforeLayers)
    config.refuse("use_sliding_window", "but sliding_window gives no size", "");
  if (config.report().count() != before)
    return {};
  std::vector<int64_t> windows(reading.count, 0);
  for (int64_t layer = 0; isUsed && layer < reading.count; ++layer)
    windows[layer] = sliding[layer] ? window : 0;
  return windows;
}

Rope readRopeOf(Reading &reading, std::string_view layerType, double theta, std::string_view thetaKey) {
  return readRope(reading.config, reading.block.attention.headDim,
                  {.theta = theta,
                   .thetaKey = thetaKey,
                   .ofLayers = layerType,
                   .hasScaling = false,
                   .maxPositions = reading.model.maxPositions})
      .rope;
}

} // namespace mgc::frontend
