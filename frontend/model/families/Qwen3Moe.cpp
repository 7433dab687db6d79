// Qwen3 with experts on some layers, and one sliding window for all layers.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"partial_rotary_factor", "1.0"}};
// The class has one window, whatever max_window_layers says.
static constexpr std::string_view kIgnored[] = {"max_window_layers"};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  const int64_t count = readLayerCount(config, model);
  const int64_t window = config.sizeOr("sliding_window", 0, kMaxPositions);
  block.attention.window = config.flag("use_sliding_window", false) ? window : 0;
  const std::vector<bool> sparse = readSparseLayers(config, count);
  if (config.has("num_local_experts"))
    model.names.experts = "num_local_experts";
  Experts experts = readExperts(config, model.names.experts);
  if (config.flag("norm_topk_prob", false))
    experts.epsilon = 0;
  const int64_t ffn = config.size("moe_intermediate_size", kMaxFfn);
  readPooledAuxLoss(config, model);
  if (!readDecoder(config, model, block, {}))
    return;
  block.attention.qkNorm = {*model.finalNorm}; // the same epsilon
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer)
    if (sparse[layer])
      layers[layer].experts = experts, layers[layer].mlp.ffn = ffn;
}

extern const Family kQwen3Moe;
const Family kQwen3Moe = {"qwen3_moe", "Qwen3MoeForCausalLM", kIgnored, kNeutral, kDecoderTensors, read};

} // namespace mgc::frontend
