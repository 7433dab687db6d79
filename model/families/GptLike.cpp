// GPT-2 and its followers: learned positions or a part of each head that rotates, layer norms, biases, an mlp without a
// gate.
#include "model/families/Decoder.h"

namespace mgc::frontend {

static constexpr TensorRow kGpt2Rows[] = {
    {"embed.tokens", "transformer.wte.weight", "v h"},
    {"embed.positions", "transformer.wpe.weight", "p h"},
    {"attn_norm.*", "transformer.h.{}.ln_1.*", "h; h"},
    {"attn.{q,k,v}.*", "transformer.h.{}.attn.c_attn.*", "h grd|gd|gd; grd|gd|gd"},
    {"attn.o.*", "transformer.h.{}.attn.c_proj.*", "grw h; h", "", 0, /*residualInit=*/true},
    {"mlp_norm.*", "transformer.h.{}.ln_2.*", "h; h"},
    {"mlp.up.*", "transformer.h.{}.mlp.c_fc.*", "h f; f"},
    {"mlp.down.*", "transformer.h.{}.mlp.c_proj.*", "f h; h", "", 0, /*residualInit=*/true},
    {"final_norm.*", "transformer.ln_f.*", "h; h"},
    {"head.weight", "lm_head.weight", "v h"}};
static constexpr TensorRow kBigCodeRows[] = {
    {"attn.{q,k,v}.*", "transformer.h.{}.attn.c_attn.*", "g(rd|d|d) h; g(rd|d|d)"},
    {"attn.o.weight", "transformer.h.{}.attn.c_proj.weight", "h grw", "", 0, /*residualInit=*/true},
    {"mlp.up.weight", "transformer.h.{}.mlp.c_fc.weight", "f h"},
    {"mlp.down.weight", "transformer.h.{}.mlp.c_proj.weight", "h f", "", 0, /*residualInit=*/true}};
static constexpr TensorRow kGptJRows[] = {{"embed.tokens", "transformer.wte.weight", "v h"},
                                          {"attn_norm.*", "transformer.h.{}.ln_1.*", "h; h"},
                                          {"attn.q.weight", "transformer.h.{}.attn.q_proj.weight", "grd h"},
                                          {"attn.k.weight", "transformer.h.{}.attn.k_proj.weight", "gd h"},
                                          {"attn.v.weight", "transformer.h.{}.attn.v_proj.weight", "gd h"},
                                          {"attn.o.weight", "transformer.h.{}.attn.out_proj.weight", "h grw"},
                                          {"mlp.up.*", "transformer.h.{}.mlp.fc_in.*", "f h; f"},
                                          {"mlp.down.*", "transformer.h.{}.mlp.fc_out.*", "h f; h"},
                                          {"final_norm.*", "transformer.ln_f.*", "h; h"},
                                          {"head.*", "lm_head.*", "v h; v"}};
static constexpr TensorRow kNeoXRows[] = {
    {"embed.tokens", "gpt_neox.embed_in.weight", "v h"},
    {"attn_norm.*", "gpt_neox.layers.{}.input_layernorm.*", "h; h"},
    {"attn.{q,k,v}.*", "gpt_neox.layers.{}.attention.query_key_value.*", "g(rd|d|d) h; g(rd|d|d)"},
    {"attn.o.*", "gpt_neox.layers.{}.attention.dense.*", "h grw; h"},
    {"mlp_norm.*", "gpt_neox.layers.{}.post_attention_layernorm.*", "h; h"},
    {"mlp.up.*", "gpt_neox.layers.{}.mlp.dense_h_to_4h.*", "f h; f"},
    {"mlp.down.*", "gpt_neox.layers.{}.mlp.dense_4h_to_h.*", "h f; h"},
    {"final_norm.*", "gpt_neox.final_layer_norm.*", "h; h"},
    {"head.weight", "embed_out.weight", "v h"}};
static constexpr TensorRow kOptRows[] = {{"embed.tokens", "model.decoder.embed_tokens.weight", "v h"},
                                         {"embed.positions", "model.decoder.embed_positions.weight", "p h"},
                                         {"attn_norm.*", "model.decoder.layers.{}.self_attn_layer_norm.*", "h; h"},
                                         {"attn.q.*", "model.decoder.layers.{}.self_attn.q_proj.*", "grd h; grd"},
                                         {"attn.k.*", "model.decoder.layers.{}.self_attn.k_proj.*", "gd h; gd"},
                                         {"attn.v.*", "model.decoder.layers.{}.self_attn.v_proj.*", "gd h; gd"},
                                         {"attn.o.*", "model.decoder.layers.{}.self_attn.out_proj.*", "h grw; h"},
                                         {"mlp_norm.*", "model.decoder.layers.{}.final_layer_norm.*", "h; h"},
                                         {"mlp.up.*", "model.decoder.layers.{}.fc1.*", "f h; f"},
                                         {"mlp.down.*", "model.decoder.layers.{}.fc2.*", "h f; h"},
                                         {"final_norm.*", "model.decoder.final_layer_norm.*", "h; h"},
                                         {"head.weight", "lm_head.weight", "v h"}};

// Causal masks, and frequencies.
static constexpr std::string_view kGptMasks[] = {"transformer.h.{}.attn.bias", "transformer.h.{}.attn.masked_bias"};
static constexpr std::string_view kBigCodeMasks[] = {"transformer.h.{}.attn.bias", "transformer.h.{}.attn.masked_bias",
                                                     "transformer.bias"};
static constexpr std::string_view kNeoXMasks[] = {"gpt_neox.layers.{}.attention.bias",
                                                  "gpt_neox.layers.{}.attention.masked_bias",
                                                  "gpt_neox.layers.{}.attention.rotary_emb.inv_freq"};

static DecoderFields gptFields(std::string_view activation) {
  return gptLike({.biases = {kAlwaysBiased},
                  .activation = activation,
                  .ffnOverHidden = 4,
                  .hasHiddenDropout = true,
                  .hasRope = false,
                  .hasPadding = false});
}

static void readGpt2(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  model.embedding = {.learnedPositions = true, .dropout = config.probability("embd_pdrop", 0.1)};
  if (!config.flag("scale_attn_weights", true))
    block.attention.scale = 1;
}

static void readBigCode(Reading &reading) {
  Config &config = reading.config;
  readGpt2(reading);
  int64_t &groups = reading.block.attention.groups;
  if (config.flag("multi_query", true))
    groups = 1;
  if (const int64_t said = config.sizeOr("num_key_value_heads", groups, kMaxHeads); said != groups && said && groups)
    config.refuse("num_key_value_heads", "contradicts multi_query and n_head", fmt::format("expected {}", groups));
}

static void readGptJ(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  const int64_t headDim = block.attention.headDim;
  Rope rope{.theta = 10000, .dim = config.size("rotary_dim", kMaxHeadDim), .interleaved = true};
  if (rope.dim % 2 != 0 || rope.dim > headDim)
    config.refuse("rotary_dim", fmt::format("of heads of n_embd / n_head = {}", headDim),
                  "expected an even number up to that");
  block.attention.rope = rope;
  setParallel(block);
  model.head.bias = true;
  model.embedding.dropout = config.probability("embd_pdrop", 0);
}

static void readNeoX(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  block.parallel = config.flag("use_parallel_residual", true);
  model.embedding.dropout = block.mlpBranch.dropout;
}

static void readOpt(Reading &reading) {
  constexpr int64_t kFirstPosition = 2;
  auto &[config, model, block, count, layers] = reading;
  if (config.sizeOr("word_embed_proj_dim", model.hidden, kMaxHidden) != model.hidden)
    config.refuse("word_embed_proj_dim", "is not hidden_size", "embeddings of another width are not supported");
  model.initializerRange = config.number("init_std", 0.02, 0, 1e3);
  model.embedding = {.learnedPositions = true, .positionOffset = kFirstPosition};
}

std::span<const Family> gptFamilies() {
  static const Family kFamilies[] = {
      {.modelType = "gpt2", // one matrix for q, k and v; weights stored [in, out]
       .architecture = "GPT2LMHeadModel",
       .ignoredFields = {"reorder_and_upcast_attn"}, // changes nothing in f32
       .neutralFields = {{"scale_attn_by_inverse_layer_idx", "false"}},
       .tensors = {"transformer.", kGpt2Rows, kGptMasks},
       .names = gptNames(),
       .fields = gptFields("gelu_new"),
       .read = readGpt2},
      // SantaCoder, StarCoder: one head of keys and values, or as many as of queries; [out, in]
      {.modelType = "gpt_bigcode",
       .architecture = "GPTBigCodeForCausalLM",
       // Softmax is in f32 anyway.
       .ignoredFields = {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"},
       .tensors = {"transformer.", kGpt2Rows, kBigCodeMasks, kBigCodeRows},
       .names = gptNames(),
       .fields = gptFields("gelu_pytorch_tanh"),
       .read = readBigCode},
      // Attention and mlp side by side, each behind a layer norm of its own; a part of each head rotates; queries, keys
      // and values of each head lie together. Pythia too.
      {.modelType = "gpt_neox",
       .architecture = "GPTNeoXForCausalLM",
       .tensors = {"gpt_neox.", kNeoXRows, kNeoXMasks},
       .names = {.groups = "num_attention_heads", .normEpsilon = "layer_norm_eps", .hiddenDropout = "hidden_dropout"},
       .fields = gptLike({.biases = {{kQkv | kOut, "attention_bias"}, {kMlp}},
                          .activation = "gelu",
                          .hasHiddenDropout = true,
                          .rope = {.part = 0.25, .thetaKey = "rotary_emb_base", .partKey = "rotary_pct"},
                          .hasPadding = false}),
       .read = readNeoX},
      // Attention and mlp side by side behind one layer norm; neighbours of a part of each head rotate
      {.modelType = "gptj",
       .architecture = "GPTJForCausalLM",
       .neutralFields = {{"scale_attn_weights", "true"}, {"rotary", "true"}},
       .tensors = {"transformer.", kGptJRows, kGptMasks},
       .names = gptNames(),
       .fields = gptLike({.biases = {{kMlp}},
                          .activation = "gelu_new",
                          .ffnOverHidden = 4,
                          .hasHiddenDropout = true,
                          .hasRope = false,
                          .hasPadding = false}),
       .read = readGptJ},
      {.modelType = "opt", // a table of positions whose first two rows are of none, and relu
       .architecture = "OPTForCausalLM",
       .neutralFields = {{"do_layer_norm_before", "true"},
                         {"_remove_final_layer_norm", "false"},
                         {"layerdrop", "0.0"},
                         {"layer_norm_elementwise_affine", "true"},
                         {"activation_dropout", "0.0"}},
       .tensors = {"model.", kOptRows, {}},
       .names = {.groups = "num_attention_heads",
                 .ffn = "ffn_dim",
                 .normEpsilon = "",
                 .activation = "activation_function",
                 .hiddenDropout = "dropout"},
       .fields = gptLike({.biases = {{kQkv | kOut | kMlp, "enable_bias"}},
                          .activation = "relu",
                          .hasHiddenDropout = true,
                          .hasRope = false}),
       .read = readOpt},
  };
  return kFamilies;
}

} // namespace mgc::frontend
