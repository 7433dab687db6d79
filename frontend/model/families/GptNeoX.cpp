// GPT-NeoX and Pythia: attention and mlp side by side, each behind a layer norm of its own; a part of each head rotates;
// queries, keys and values of each head lie together.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// A field of other heads; the class reads the two others under other names.
static constexpr std::string_view kIgnored[] = {"classifier_dropout", "attention_probs_dropout_prob",
                                                "hidden_dropout_prob"};

static constexpr TensorRow kRows[] = {
    {"embed.tokens", "gpt_neox.embed_in.weight", "v h"},
    {"attn_norm.weight", "gpt_neox.layers.{}.input_layernorm.weight", "h"},
    {"attn_norm.bias", "gpt_neox.layers.{}.input_layernorm.bias", "h"},
    {"attn.q.weight", "gpt_neox.layers.{}.attention.query_key_value.weight", "g(rd|d|d) h", "q", 0},
    {"attn.q.bias", "gpt_neox.layers.{}.attention.query_key_value.bias", "g(rd|d|d)", "q", 0},
    {"attn.k.weight", "gpt_neox.layers.{}.attention.query_key_value.weight", "g(rd|d|d) h", "k", 1},
    {"attn.k.bias", "gpt_neox.layers.{}.attention.query_key_value.bias", "g(rd|d|d)", "k", 1},
    {"attn.v.weight", "gpt_neox.layers.{}.attention.query_key_value.weight", "g(rd|d|d) h", "v", 2},
    {"attn.v.bias", "gpt_neox.layers.{}.attention.query_key_value.bias", "g(rd|d|d)", "v", 2},
    {"attn.o.weight", "gpt_neox.layers.{}.attention.dense.weight", "h grw"},
    {"attn.o.bias", "gpt_neox.layers.{}.attention.dense.bias", "h"},
    {"mlp_norm.weight", "gpt_neox.layers.{}.post_attention_layernorm.weight", "h"},
    {"mlp_norm.bias", "gpt_neox.layers.{}.post_attention_layernorm.bias", "h"},
    {"mlp.up.weight", "gpt_neox.layers.{}.mlp.dense_h_to_4h.weight", "f h"},
    {"mlp.up.bias", "gpt_neox.layers.{}.mlp.dense_h_to_4h.bias", "f"},
    {"mlp.down.weight", "gpt_neox.layers.{}.mlp.dense_4h_to_h.weight", "h f"},
    {"mlp.down.bias", "gpt_neox.layers.{}.mlp.dense_4h_to_h.bias", "h"},
    {"final_norm.weight", "gpt_neox.final_layer_norm.weight", "h"},
    {"final_norm.bias", "gpt_neox.final_layer_norm.bias", "h"},
    {"head.weight", "embed_out.weight", "v h"}};

// Causal masks and frequencies.
static constexpr std::string_view kIgnoredTensors[] = {"gpt_neox.layers.{}.attention.bias",
                                                       "gpt_neox.layers.{}.attention.masked_bias",
                                                       "gpt_neox.layers.{}.attention.rotary_emb.inv_freq"};

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.groups = model.names.heads;
  model.names.normEpsilon = "layer_norm_eps", model.names.hiddenDropout = "hidden_dropout";
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = config.flag("attention_bias", true);
  block.mlp.bias = true;
  block.parallel = config.flag("use_parallel_residual", true);
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readDecoder(
      config, model, block,
      {.hasHeadDim = false,
       .norm = layerNorm(1e-5),
       .activation = "gelu",
       .rope = {.theta = 10000, .part = 0.25, .thetaKey = "rotary_emb_base", .partKey = "rotary_pct"},
       .hasPadding = false});
  block.mlp.gated = false;
  const double dropout = config.probability("hidden_dropout", 0);
  block.attentionBranch.dropout = block.mlpBranch.dropout = model.embedding.dropout = dropout;
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kGptNeoX;
const Family kGptNeoX = {
    "gpt_neox", "GPTNeoXForCausalLM", kIgnored, {}, {"gpt_neox.", kRows, kIgnoredTensors}, read};

} // namespace mgc::frontend
