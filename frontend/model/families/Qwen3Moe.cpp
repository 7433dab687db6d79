// Qwen3 with experts on all layers, or on every one of decoder_sparse_step. Its auxiliary loss is part of the loss only where
// output_router_logits says so.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {
    {"partial_rotary_factor", "1.0"}, {"mlp_only_layers", "[]"}, {"output_router_logits", "false"}};
static constexpr std::string_view kIgnored[] = {"router_aux_loss_coef"}; // without output_router_logits

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  const int64_t count = config.size("num_hidden_layers", kMaxLayers);
  const std::vector<int64_t> windows = readLayerWindows(config, count);
  const int64_t step = config.sizeOr("decoder_sparse_step", 1, kMaxLayers);
  Experts experts =
      readExperts(config, config.has("num_local_experts") ? "num_local_experts" : "num_experts");
  if (config.flag("norm_topk_prob", false))
    experts.epsilon = 0;
  const int64_t ffn = config.size("moe_intermediate_size", kMaxFfn);
  if (!readDecoder(config, model, block, {.headDim = 128}))
    return;
  block.attention.qkNorm = model.finalNorm; // the same epsilon
  layers.assign(count, block);
  for (int64_t layer = 0; layer < count; ++layer) {
    layers[layer].attention.window = windows[layer];
    if ((layer + 1) % step == 0)
      layers[layer].experts = experts, layers[layer].mlp.ffn = ffn;
  }
}

extern const Family kQwen3Moe;
const Family kQwen3Moe = {"qwen3_moe", "Qwen3MoeForCausalLM", kIgnored, kNeutral, kDecoderTensors, read};

} // namespace mgc::frontend
