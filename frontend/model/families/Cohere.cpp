// Command R: attention and mlp side by side behind one layer norm without bias, neighbours rotate, scaled logits.
#include "frontend/model/families/Cohere.h"

namespace mgc::frontend {

// A limit of the tokenizer.
static constexpr std::string_view kIgnored[] = {"model_max_length"};

static constexpr TensorRow kRows[] = {
    {"attn.q_norms.weight", "model.layers.{}.self_attn.q_norm.weight", "gr d"},
    {"attn.k_norms.weight", "model.layers.{}.self_attn.k_norm.weight", "g d"}};

bool readCohere(Config &config, ModelDescription &model, BlockDescription &block, double theta) {
  model.names.normEpsilon = "layer_norm_eps";
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", false);
  model.head.scale = config.number("logit_scale", 0.0625, 1e-9, 1e9);
  Norm norm = layerNorm(1e-5);
  norm.bias = false;
  const bool isUsable = readDecoder(
      config, model, block,
      {.groupsMayBeAbsent = true, .norm = norm, .isTied = true, .rope = {.theta = theta}, .paddingToken = 0});
  block.parallel = true;
  block.mlpBranch.before.reset();
  block.attention.rope->interleaved = true;
  return isUsable;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  const bool hasNorms = config.flag("use_qk_norm", false);
  const bool isUsable =
      readCohere(config, model, block, /*theta=*/0); // versions of transformers have other defaults
  if (hasNorms)
    block.attention.qkNorm = {*model.finalNorm, NormSpan::eachHead};
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kCohere;
const Family kCohere = {"cohere", "CohereForCausalLM", kIgnored, {}, withRows(kRows), read};

} // namespace mgc::frontend
