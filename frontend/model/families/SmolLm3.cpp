// SmolLM3: Llama without rotary positions on every fourth layer.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// The class reads neither.
static constexpr std::string_view kIgnored[] = {"max_window_layers", "pretraining_tp"};

// no_rope_layers has a number for each layer: 1 where it rotates.
static std::vector<bool> readRotating(Config &config, int64_t count) {
  const int64_t every = config.sizeOr("no_rope_layer_interval", 4, kMaxLayers);
  const std::vector<int64_t> given = config.counts("no_rope_layers", 0, 1);
  if (!given.empty() && static_cast<int64_t>(given.size()) != count)
    config.refuse("no_rope_layers", fmt::format("has {} entries", given.size()),
                  fmt::format("expected one for each of num_hidden_layers = {}", count));
  std::vector<bool> rotating(count);
  for (int64_t layer = 0; layer < count; ++layer)
    rotating[layer] =
        static_cast<int64_t>(given.size()) == count ? given[layer] == 1 : (layer + 1) % every != 0;
  return rotating;
}

// Where layer_types is missing, layers that do not rotate have the window.
static std::vector<int64_t> readWindows(Config &config, const std::vector<bool> &rotating) {
  const auto count = static_cast<int64_t>(rotating.size());
  const bool isUsed = config.flag("use_sliding_window", false);
  const int64_t window = isUsed ? config.sizeOr("sliding_window", 0, kMaxPositions) : 0;
  config.ignore(std::array{std::string_view("sliding_window")});
  const std::vector<std::string> types = readLayerTypes(config, count);
  if (window == 0 && std::ranges::find(types, "sliding_attention") != types.end())
    config.refuse("layer_types", "names sliding_attention, but no window is in use",
                  "set use_sliding_window to true and sliding_window to its size");
  std::vector<int64_t> windows(count);
  for (int64_t layer = 0; layer < count; ++layer)
    if (types.empty() ? !rotating[layer] : types[layer] == "sliding_attention")
      windows[layer] = window;
  return windows;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  block.mlp.bias = config.flag("mlp_bias", false);
  const int64_t count = readLayerCount(config, model);
  const std::vector<bool> rotating = readRotating(config, count);
  const std::vector<int64_t> windows = readWindows(config, rotating);
  if (!readDecoder(config, model, block, {.isTied = true, .rope = {.theta = 2e6}, .paddingToken = 128004}))
    return;
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer) {
    layers[layer].attention.window = windows[layer];
    if (!rotating[layer])
      layers[layer].attention.rope.reset();
  }
}

extern const Family kSmolLm3;
const Family kSmolLm3 = {"smollm3", "SmolLM3ForCausalLM", kIgnored, {}, kDecoderTensors, read};

} // namespace mgc::frontend
