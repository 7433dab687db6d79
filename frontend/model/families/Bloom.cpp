// BLOOM: scores fall with distance, in the place of positions; a norm of the embeddings; queries, keys and values of each
// head lie together.
#include "frontend/model/families/Bloom.h"
#include "frontend/model/families/Slopes.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {{"apply_residual_connection_post_layernorm", "false"}};
// Fused kernels, sums in slices, and what the class does not read.
static constexpr std::string_view kIgnored[] = {
    "slow_but_exact",        "pretraining_tp",      "n_inner",
    "masked_softmax_fusion", "bias_dropout_fusion", "attention_softmax_in_fp32",
    "offset_alibi",          "seq_length",          "skip_bias_add",
    "skip_bias_add_qkv"};

static constexpr TensorRow kRows[] = {
    {"embed.tokens", "transformer.word_embeddings.weight", "v h"},
    {"embed_norm.weight", "transformer.word_embeddings_layernorm.weight", "h"},
    {"embed_norm.bias", "transformer.word_embeddings_layernorm.bias", "h"},
    {"attn_norm.weight", "transformer.h.{}.input_layernorm.weight", "h"},
    {"attn_norm.bias", "transformer.h.{}.input_layernorm.bias", "h"},
    {"attn.q.weight", "transformer.h.{}.self_attention.query_key_value.weight", "g(rd|d|d) h", "q", 0},
    {"attn.q.bias", "transformer.h.{}.self_attention.query_key_value.bias", "g(rd|d|d)", "q", 0},
    {"attn.k.weight", "transformer.h.{}.self_attention.query_key_value.weight", "g(rd|d|d) h", "k", 1},
    {"attn.k.bias", "transformer.h.{}.self_attention.query_key_value.bias", "g(rd|d|d)", "k", 1},
    {"attn.v.weight", "transformer.h.{}.self_attention.query_key_value.weight", "g(rd|d|d) h", "v", 2},
    {"attn.v.bias", "transformer.h.{}.self_attention.query_key_value.bias", "g(rd|d|d)", "v", 2},
    {"attn.o.weight", "transformer.h.{}.self_attention.dense.weight", "h grw"},
    {"attn.o.bias", "transformer.h.{}.self_attention.dense.bias", "h"},
    {"mlp_norm.weight", "transformer.h.{}.post_attention_layernorm.weight", "h"},
    {"mlp_norm.bias", "transformer.h.{}.post_attention_layernorm.bias", "h"},
    {"mlp.up.weight", "transformer.h.{}.mlp.dense_h_to_4h.weight", "f h"},
    {"mlp.up.bias", "transformer.h.{}.mlp.dense_h_to_4h.bias", "f"},
    {"mlp.down.weight", "transformer.h.{}.mlp.dense_4h_to_h.weight", "h f"},
    {"mlp.down.bias", "transformer.h.{}.mlp.dense_4h_to_h.bias", "h"},
    {"final_norm.weight", "transformer.ln_f.weight", "h"},
    {"final_norm.bias", "transformer.ln_f.bias", "h"},
    {"head.weight", "lm_head.weight", "v h"}};

constinit const std::span<const TensorRow> kBloomRows = kRows;

// The old spelling of hidden_size wins.
static std::string hiddenKey(Config &config) {
  const bool isOld = config.isSet("n_embed");
  config.ignore(std::array{std::string_view("n_embed"), std::string_view("hidden_size")});
  return isOld ? "n_embed" : "hidden_size";
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names = {.heads = config.has("num_attention_heads") ? "num_attention_heads" : "n_head",
                 .ffn = "",
                 .layers = config.has("num_hidden_layers") ? "num_hidden_layers" : "n_layer",
                 .positions = "",
                 .hidden = hiddenKey(config),
                 .normEpsilon = "layer_norm_epsilon",
                 .activation = "",
                 .hiddenDropout = "hidden_dropout"};
  model.names.groups = model.names.heads;
  BlockDescription block;
  block.attention.qkvBias = block.attention.outBias = block.mlp.bias = true;
  const int64_t count = readLayerCount(config, model);
  const bool isUsable = readDecoder(config, model, block,
                                    {.hasHeadDim = false,
                                     .norm = layerNorm(1e-5),
                                     .activation = "gelu_new",
                                     .ffnOverHidden = 4,
                                     .isTied = true,
                                     .hasRope = false,
                                     .hasPadding = false});
  block.mlp.gated = false;
  model.embedding.norm = model.finalNorm;
  block.attentionBranch.dropout = block.mlpBranch.dropout = config.probability("hidden_dropout", 0);
  block.attention.slopes = alibiSlopes(block.attention.heads);
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kBloom;
const Family kBloom = {"bloom", "BloomForCausalLM", kIgnored, kNeutral, {"transformer.", kRows, {}}, read};

} // namespace mgc::frontend
