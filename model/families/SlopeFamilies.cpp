// Families whose scores fall with distance, in the place of positions (ALiBi, Press et al. 2021): BLOOM, MPT, and some
// of Falcon.
#include "model/Slopes.h"
#include "model/families/Decoder.h"

#include <bit>
#include <cmath>

namespace mgc::frontend {

// Names of BLOOM, and of Falcon.
static constexpr TensorRow kBloomRows[] = {
    {"embed.tokens", "transformer.word_embeddings.weight", "v h"},
    {"embed_norm.*", "transformer.word_embeddings_layernorm.*", "h; h"},
    {"attn_norm.*", "transformer.h.{}.input_layernorm.*", "h; h"},
    {"attn.{q,k,v}.*", "transformer.h.{}.self_attention.query_key_value.*", "g(rd|d|d) h; g(rd|d|d)"},
    {"attn.o.*", "transformer.h.{}.self_attention.dense.*", "h grw; h"},
    {"mlp_norm.*", "transformer.h.{}.post_attention_layernorm.*", "h; h"},
    {"mlp.up.*", "transformer.h.{}.mlp.dense_h_to_4h.*", "f h; f"},
    {"mlp.down.*", "transformer.h.{}.mlp.dense_4h_to_h.*", "h f; h"},
    {"final_norm.*", "transformer.ln_f.*", "h; h"},
    {"head.weight", "lm_head.weight", "v h"}};
// Two norms of one input have names of their own.
static constexpr TensorRow kTwoNormRows[] = {{"attn_norm.*", "transformer.h.{}.ln_attn.*", "h; h"},
                                             {"mlp_norm.*", "transformer.h.{}.ln_mlp.*", "h; h"}};
static constexpr TensorRow kMptRows[] = {
    {"embed.tokens", "transformer.wte.weight", "v h"},
    {"attn_norm.weight", "transformer.blocks.{}.norm_1.weight", "h"},
    {"attn.{q,k,v}.weight", "transformer.blocks.{}.attn.Wqkv.weight", "grd|gd|gd h"},
    {"attn.o.weight", "transformer.blocks.{}.attn.out_proj.weight", "h grw"},
    {"mlp_norm.weight", "transformer.blocks.{}.norm_2.weight", "h"},
    {"mlp.up.weight", "transformer.blocks.{}.ffn.up_proj.weight", "f h"},
    {"mlp.down.weight", "transformer.blocks.{}.ffn.down_proj.weight", "h f"},
    {"final_norm.weight", "transformer.norm_f.weight", "h"},
    {"head.weight", "lm_head.weight", "v h"}};

// The slopes of the power of two at or above the number of heads: of another number first each second one.
static std::vector<double> mptSlopesOf(int64_t heads) {
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(heads)));
  const std::vector<double> all = slopesOf(power);
  if (power == heads)
    return all;
  std::vector<double> slopes;
  for (int64_t first : {1, 0})
    for (int64_t i = first; i < power; i += 2)
      slopes.push_back(all[i]);
  slopes.resize(heads);
  return slopes;
}

// The old spelling of hidden_size wins.
static void setHiddenKey(Reading &reading, DecoderFields &) {
  reading.model.names.hidden = reading.config.isSet("n_embed") ? "n_embed" : "hidden_size";
  reading.config.ignore(std::array<std::string_view, 2>{"n_embed", "hidden_size"});
}

// --- BLOOM

static void readBloom(Reading &reading) {
  reading.model.embedding.norm = reading.model.finalNorm;
  reading.block.attention.slopes = slopesOf(reading.block.attention.heads);
}

// --- Falcon

static void prepareFalcon(Reading &reading, DecoderFields &fields) {
  setHiddenKey(reading, fields);
  fields.hasRope = !reading.config.flag("alibi", false);
}

static void readGroups(Config &config, AttentionDescription &attention, bool isNew) {
  if (isNew)
    attention.groups = config.sizeOr("num_kv_heads", attention.heads, kMaxHeads);
  else
    attention.groups = config.flag("multi_query", true) ? 1 : attention.heads;
  config.ignore(std::array<std::string_view, 2>{"num_kv_heads", "multi_query"});
  if (attention.heads && attention.groups && attention.heads % attention.groups != 0)
    config.refuse("num_kv_heads", fmt::format("does not divide num_attention_heads = {}", attention.heads),
                  "possible num_kv_heads: " + listOf(divisorsOf(attention.heads, kMaxHeads)));
}

static void setBranches(Config &config, BlockDescription &block, bool isNew) {
  const bool isParallel = config.flag("parallel_attn", true),
             hasTwoNorms = config.sizeOr("num_ln_in_parallel_attn", isNew ? 2 : 1, 2) == 2;
  if (isNew && !isParallel)
    config.refuse("parallel_attn", "is not supported with new_decoder_architecture", "expected true");
  if (!isNew && isParallel && hasTwoNorms)
    config.refuse("num_ln_in_parallel_attn", "is not supported without new_decoder_architecture", "expected null or 1");
  block.parallel = isParallel;
  if (isParallel && !hasTwoNorms)
    block.mlpBranch.before.reset();
}

static std::span<const TensorRow> falconRows(const std::vector<BlockDescription> &layers) {
  const bool hasTwo = layers.front().parallel && layers.front().mlpBranch.before;
  return hasTwo ? std::span<const TensorRow>(kTwoNormRows) : std::span<const TensorRow>();
}

// The slopes are divided as the scores are. The class rounds them to bf16.
static void setFalconSlopes(Config &config, AttentionDescription &attention) {
  attention.slopes = slopesOf(attention.heads);
  for (double &slope : attention.slopes)
    slope /= std::sqrt(static_cast<double>(attention.headDim));
  config.ignore(std::array<std::string_view, 3>{"rope_parameters", "rope_theta", "rope_scaling"}); // nothing rotates
}

// Dropout that the class has is dropped at other places than here: it is refused.
static void readFalcon(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  const bool isNew = config.flag("new_decoder_architecture", false);
  readGroups(config, block.attention, isNew);
  setBranches(config, block, isNew);
  for (std::string_view key : {"hidden_dropout", "attention_dropout"})
    if (config.probability(key, 0) != 0)
      config.refuse(key, "is not supported", "supported: 0.0");
  if (!block.attention.rope)
    setFalconSlopes(config, block.attention);
}

// --- MPT

// Without attn_config the class has its defaults.
static void readMpt(Reading &reading) {
  AttentionDescription &attention = reading.block.attention;
  attention.slopes = mptSlopesOf(attention.heads);
  std::optional<Config> own = reading.config.child("attn_config");
  if (!own)
    return;
  for (const auto &[key, value] : {std::pair("alibi", "true"),
                                   {"alibi_bias_max", "8"},
                                   {"qk_ln", "false"},
                                   {"prefix_lm", "false"},
                                   {"attn_uses_sequence_id", "false"},
                                   {"attn_type", "\"multihead_attention\""}})
    own->expect(key, value);
  own->setClass(*classFieldsOf("mpt"));
  acceptCommonFields(*own);
  own->ignore(std::array<std::string_view, 2>{"attn_impl", "architectures"});
  attention.clip = own->number("clip_qkv", 0, 0, 1e15);
  if (own->isSet("softmax_scale"))
    attention.scale = own->requiredNumber("softmax_scale", 1e-9, 1e9);
  own->ignore(std::array<std::string_view, 1>{"softmax_scale"});
  attention.dropout = reading.block.attentionBranch.dropout = reading.block.mlpBranch.dropout =
      own->probability("attn_pdrop", 0);
  own->finish("attn_config");
}

std::span<const Family> slopeFamilies() {
  static const Family kFamilies[] = {
      {.modelType = "bloom", // a norm of the embeddings; queries, keys and values of each head lie together
       .architecture = "BloomForCausalLM",
       // Sums in slices.
       .ignoredFields = {"slow_but_exact", "pretraining_tp"},
       .neutralFields = {{"apply_residual_connection_post_layernorm", "false"}},
       .tensors = {"transformer.", kBloomRows, {}},
       .names = {.heads = "n_head",
                 .groups = "n_head",
                 .ffn = "",
                 .layers = "n_layer",
                 .positions = "",
                 .normEpsilon = "layer_norm_epsilon",
                 .activation = "",
                 .hiddenDropout = "hidden_dropout"},
       .fields = gptLike({.biases = {kAlwaysBiased},
                          .activation = "gelu_new",
                          .ffnOverHidden = 4,
                          .hasHiddenDropout = true,
                          .hasRope = false,
                          .hasPadding = false}),
       .prepare = setHiddenKey,
       .read = readBloom},
      // Attention and mlp side by side or in turn; keys of all heads, of one or of groups; rotary positions, or slopes.
      // Queries of a group, its keys and its values lie together.
      {.modelType = "falcon",
       .architecture = "FalconForCausalLM",
       .neutralFields = {{"apply_residual_connection_post_layernorm", "false"}},
       .tensors = {"transformer.", kBloomRows, {}},
       .rowsOf = falconRows,
       .names = {.groups = "num_attention_heads",
                 .ffn = "ffn_hidden_size",
                 .normEpsilon = "layer_norm_epsilon",
                 .activation = "activation",
                 .attentionDropout = ""},
       .fields = gptLike(
           {.biases = {{kQkv | kOut | kMlp, "bias"}}, .activation = "gelu", .ffnOverHidden = 4, .hasPadding = false}),
       .prepare = prepareFalcon,
       .read = readFalcon},
      {.modelType = "mpt", // layer norms without biases; one matrix of queries, keys and values
       .architecture = "MptForCausalLM",
       .neutralFields = {{"logit_scale", "null"}, {"no_bias", "true"}, {"embedding_fraction", "1.0"}},
       .tensors = {"transformer.", kMptRows, {}},
       .names = {.heads = "n_heads",
                 .groups = "n_heads",
                 .ffn = "",
                 .layers = "n_layers",
                 .positions = "max_seq_len",
                 .hidden = "d_model",
                 .normEpsilon = "layer_norm_epsilon",
                 .activation = "",
                 .attentionDropout = ""},
       .fields = gptLike({.activation = "gelu", .ffnOverHidden = 4, .hasRope = false, .hasPadding = false},
                         {.epsilon = 1e-5}),
       .read = readMpt},
  };
  return kFamilies;
}

} // namespace mgc::frontend
