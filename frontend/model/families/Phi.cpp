// Phi 1, 1.5 and 2: attention and mlp side by side behind one layer norm, biases everywhere, a part of each head rotates.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr TensorRow kRows[] = {
    {"attn.o.weight", "model.layers.{}.self_attn.dense.weight", "h grw"},
    {"attn.o.bias", "model.layers.{}.self_attn.dense.bias", "h"},
    {"attn.q_norm.weight", "model.layers.{}.self_attn.q_layernorm.weight", "d"},
    {"attn.q_norm.bias", "model.layers.{}.self_attn.q_layernorm.bias", "d"},
    {"attn.k_norm.weight", "model.layers.{}.self_attn.k_layernorm.weight", "d"},
    {"attn.k_norm.bias", "model.layers.{}.self_attn.k_layernorm.bias", "d"},
    {"mlp.up.weight", "model.layers.{}.mlp.fc1.weight", "f h"},
    {"mlp.up.bias", "model.layers.{}.mlp.fc1.bias", "f"},
    {"mlp.down.weight", "model.layers.{}.mlp.fc2.weight", "h f"},
    {"mlp.down.bias", "model.layers.{}.mlp.fc2.bias", "h"},
    {"final_norm.weight", "model.final_layernorm.weight", "h"},
    {"final_norm.bias", "model.final_layernorm.bias", "h"}};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.normEpsilon = "layer_norm_eps";
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = block.mlp.bias = model.head.bias = true;
  const int64_t count = readLayerCount(config, model);
  const bool hasNorms = config.flag("qk_layernorm", false);
  const bool isUsable = readDecoder(config, model, block,
                                    {.hasHeadDim = false,
                                     .groupsMayBeAbsent = true,
                                     .norm = layerNorm(1e-5),
                                     .activation = "gelu_new",
                                     .rope = {.theta = 10000, .part = 0.5}});
  block.parallel = true;
  block.mlp.gated = false;
  block.mlpBranch.before.reset();
  block.attentionBranch.dropout = block.mlpBranch.dropout = config.probability("resid_pdrop", 0);
  model.embedding.dropout = config.probability("embd_pdrop", 0);
  if (hasNorms)
    block.attention.qkNorm = {*model.finalNorm};
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kPhi;
const Family kPhi = {"phi", "PhiForCausalLM", {}, {}, withRows(kRows), read};

} // namespace mgc::frontend
