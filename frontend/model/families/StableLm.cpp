// StableLM: Llama with layer norms, a part of each head rotates; attention and mlp may be side by side, and queries and keys
// normed, each head with a weight of its own.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr TensorRow kRows[] = {
    {"attn.q_norms.weight", "model.layers.{}.self_attn.q_layernorm.norms.{#}.weight", "gr d"},
    {"attn.k_norms.weight", "model.layers.{}.self_attn.k_layernorm.norms.{#}.weight", "g d"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.normEpsilon = "layer_norm_eps", model.names.hiddenDropout = "hidden_dropout";
  BlockDescription block;
  block.attention.qkvBias = config.flag("use_qkv_bias", false);
  const int64_t count = readLayerCount(config, model);
  const bool hasNorms = config.flag("qk_layernorm", false),
             isParallel = config.flag("use_parallel_residual", false);
  const bool isUsable =
      readDecoder(config, model, block,
                  {.hasHeadDim = false, .norm = layerNorm(1e-5), .rope = {.theta = 10000, .part = 0.25}});
  block.mlpBranch.dropout = config.probability("hidden_dropout", 0);
  if (isParallel)
    block.parallel = true, block.mlpBranch.before.reset();
  if (hasNorms) {
    block.attention.qkNorm = {*model.finalNorm, NormSpan::eachHead};
    block.attention.qkNorm->norm.bias = false;
  }
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kStableLm;
const Family kStableLm = {"stablelm", "StableLmForCausalLM", {}, {}, withRows(kRows), read};

} // namespace mgc::frontend
