// Qwen2 with experts on some layers and a shared expert beside them, times the sigmoid of its gate. Its auxiliary loss is
// part of the loss only where output_router_logits says so.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"partial_rotary_factor", "1.0"},
                                            {"output_router_logits", "false"}};
static constexpr std::string_view kIgnored[] = {"router_aux_loss_coef"}; // without output_router_logits

// Versions of transformers disagree on the layers that have the window where layer_types does not say it.
static std::vector<int64_t> readWindows(Config &config, int64_t layers) {
  if (config.flag("use_sliding_window", false) && !config.isSet("layer_types"))
    config.refuse("use_sliding_window", "but layer_types does not say which layers have the window",
                  "expected layer_types with sliding_attention or full_attention for each layer");
  return readLayerWindows(config, layers);
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = config.flag("qkv_bias", true);
  const int64_t count = readLayerCount(config, model);
  const std::vector<int64_t> windows = readWindows(config, count);
  const std::vector<bool> sparse = readSparseLayers(config, count);
  Experts experts = readExperts(config, "num_experts");
  if (config.flag("norm_topk_prob", false))
    experts.epsilon = 0;
  experts.shared = {config.size("shared_expert_intermediate_size", kMaxFfn), /*gated=*/true};
  const int64_t ffn = config.size("moe_intermediate_size", kMaxFfn);
  if (!readDecoder(config, model, block, {}))
    return;
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer) {
    layers[layer].attention.window = windows[layer];
    if (sparse[layer])
      layers[layer].experts = experts, layers[layer].mlp.ffn = ffn;
  }
}

extern const Family kQwen2Moe;
const Family kQwen2Moe = {"qwen2_moe", "Qwen2MoeForCausalLM", kIgnored, kNeutral, kDecoderTensors, read};

} // namespace mgc::frontend
