// Llama and the families whose layers are all equal and differ from its own by rows, or by a few facts.
#include "model/families/Decoder.h"

namespace mgc::frontend {

static constexpr TensorRow kGlmRows[] = {{"mlp.{gate,up}.weight", "model.layers.{}.mlp.gate_up_proj.weight", "f|f h"}};
static constexpr TensorRow kPhiRows[] = {{"attn.o.*", "model.layers.{}.self_attn.dense.*", "h grw; h"},
                                         {"attn.q_norm.*", "model.layers.{}.self_attn.q_layernorm.*", "d; d"},
                                         {"attn.k_norm.*", "model.layers.{}.self_attn.k_layernorm.*", "d; d"},
                                         {"mlp.up.*", "model.layers.{}.mlp.fc1.*", "f h; f"},
                                         {"mlp.down.*", "model.layers.{}.mlp.fc2.*", "h f; h"},
                                         {"final_norm.*", "model.final_layernorm.*", "h; h"}};
static constexpr TensorRow kPhi3Rows[] = {
    {"attn.{q,k,v}.weight", "model.layers.{}.self_attn.qkv_proj.weight", "grd|gd|gd h"},
    {"mlp.{gate,up}.weight", "model.layers.{}.mlp.gate_up_proj.weight", "f|f h"}};
static constexpr TensorRow kStableLmRows[] = {
    {"attn.q_norms.weight", "model.layers.{}.self_attn.q_layernorm.norms.{#}.weight", "gr d"},
    {"attn.k_norms.weight", "model.layers.{}.self_attn.k_layernorm.norms.{#}.weight", "g d"}};
static constexpr TensorRow kStarcoder2Rows[] = {{"mlp.up.*", "model.layers.{}.mlp.c_fc.*", "f h; f"},
                                                {"mlp.down.*", "model.layers.{}.mlp.c_proj.*", "h f; h"}};

static void setFactors(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  constexpr double kLeast = 1e-9, kMost = 1e9;
  model.embedding.scale = config.number("embedding_multiplier", 1, kLeast, kMost);
  model.head.scale = 1 / config.number("logits_scaling", 1, kLeast, kMost);
  block.residualScale = config.number("residual_multiplier", 1, kLeast, kMost);
  block.attention.scale = config.number("attention_multiplier", 1, kLeast, kMost);
}

static void readPhi(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  model.head.bias = true;
  setParallel(block);
  model.embedding.dropout = config.probability("embd_pdrop", 0);
  if (config.flag("qk_layernorm", false))
    block.attention.qkNorm = {*model.finalNorm};
}

static void checkScaling(Reading &reading) {
  Config &config = reading.config;
  const RopeKind kind = reading.block.attention.rope->scaling.kind;
  if (kind != RopeKind::none && kind != RopeKind::longrope)
    config.refuse(config.isSet("rope_parameters") ? "rope_parameters" : "rope_scaling",
                  fmt::format("has the rope_type {}, which the class does not know", wordOf(kind)),
                  "supported: default, longrope");
}

static void readStableLm(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  block.mlpBranch.dropout = config.probability("hidden_dropout", 0);
  if (config.flag("use_parallel_residual", false))
    setParallel(block);
  if (!config.flag("qk_layernorm", false))
    return;
  block.attention.qkNorm = {*model.finalNorm, NormSpan::eachHead};
  block.attention.qkNorm->norm.bias = false;
}

static DecoderFields glmFields() {
  return {
      .biases = {{kQkv, "attention_bias"}}, .norm = rmsNorm(1.5625e-07), .rope = {.part = 0.5, .interleaved = true}};
}

std::span<const Family> llamaFamilies() {
  static const Family kFamilies[] = {
      {.modelType = "arcee", // an mlp of squared relu, without a gate
       .architecture = "ArceeForCausalLM",
       .fields = {.biases = {kAttentionBias, kMlpBias}, .norm = rmsNorm(1e-5), .activation = "relu2", .gated = false}},
      {.modelType = "ernie4_5", // dense; neighbours rotate
       .architecture = "Ernie4_5ForCausalLM",
       .fields = {.biases = {{kQkv | kOut | kMlp, "use_bias"}}, .norm = rmsNorm(1e-5), .rope = {.interleaved = true}}},
      // GLM-4 in its first form: neighbours of a half of each head rotate; gate and up are one matrix
      {.modelType = "glm", .architecture = "GlmForCausalLM", .tensors = withRows(kGlmRows), .fields = glmFields()},
      {.modelType = "glm4", // GLM-4-0414: a norm before and one after each branch
       .architecture = "Glm4ForCausalLM",
       .tensors = withRows(kGlmRows),
       .fields = glmFields(),
       .read =
           [](Reading &reading) {
             BlockDescription &block = reading.block;
             block.attentionBranch.after = block.mlpBranch.after = reading.model.finalNorm;
           }},
      {.modelType = "granite", // factors of embeddings, branches, scores and logits
       .architecture = "GraniteForCausalLM",
       .neutralFields = {{"pretraining_tp", "1"}},
       .fields = {.biases = {kAttentionBias, kMlpBias}},
       .read = setFactors,
       .embeddingScaleKey = "embedding_multiplier"},
      {.modelType = "llama", // RMS norms, rotary positions, grouped queries, a gated mlp, optional biases
       .architecture = "LlamaForCausalLM",
       .neutralFields = {{"pretraining_tp", "1"}, {"rope_interleaved", "false"}},
       .fields = {.biases = {kAttentionBias, kMlpBias}}},
      // Text: Mistral with yarn, and queries that grow with their distance from the beginning
      {.modelType = "ministral3",
       .architecture = "Ministral3ForCausalLM",
       .neutralFields = {{"attention_bias", "false"}, {"mlp_bias", "false"}},
       .fields = {.norm = rmsNorm(1e-5), .rope = {.hasQueryGrowth = true}, .hasWindow = true}},
      {.modelType = "mistral", // no biases, and one sliding window for all layers
       .architecture = "MistralForCausalLM",
       .neutralFields = {{"pretraining_tp", "1"}, {"attention_bias", "false"}, {"mlp_bias", "false"}},
       .fields = {.hasWindow = true}},
      // Layer norms by 1 + weight, squared relu without a gate; a part of each head rotates
      {.modelType = "nemotron",
       .architecture = "NemotronForCausalLM",
       .names = {.normEpsilon = "norm_eps"},
       .fields = {.biases = {kAttentionBias, kMlpBias},
                  .norm = {.epsilon = 1e-5, .bias = true, .offset = 1},
                  .activation = "relu2",
                  .gated = false,
                  .rope = {.part = 0.5}}},
      {.modelType = "olmo", // layer norms without parameters; queries, keys and values may be bounded
       .architecture = "OlmoForCausalLM",
       .neutralFields = {{"pretraining_tp", "1"}},
       .names = {.normEpsilon = ""}, // the class has one
       .fields = {.biases = {kAttentionBias}, .norm = {.epsilon = 1e-5, .weight = false}},
       .read = readClip},
      // 1, 1.5 and 2: parallel branches behind one layer norm, biases; a part of each head rotates
      {.modelType = "phi",
       .architecture = "PhiForCausalLM",
       .tensors = withRows(kPhiRows),
       .names = {.normEpsilon = "layer_norm_eps"},
       .fields = gptLike(
           {.biases = {kAlwaysBiased}, .activation = "gelu_new", .hasHiddenDropout = true, .rope = {.part = 0.5}}),
       .read = readPhi},
      // Phi-3, Phi-3.5 and Phi-4: queries, keys and values are one matrix, and gate and up another; with longrope the
      // frequencies depend on the length of the sequences.
      {.modelType = "phi3",
       .architecture = "Phi3ForCausalLM",
       .neutralFields = {{"attention_bias", "false"}, {"mlp_bias", "false"}, {"lm_head_bias", "false"}},
       .tensors = withRows(kPhi3Rows),
       .fields = {.norm = rmsNorm(1e-5), .hasHiddenDropout = true, .rope = {.part = 1}, .hasWindow = true},
       .read = checkScaling},
      {.modelType = "seed_oss", // biases of queries, keys and values, and dropout
       .architecture = "SeedOssForCausalLM",
       .names = {.hiddenDropout = "residual_dropout"},
       .fields = {.biases = {{kQkv, "attention_bias"}, {kOut, "attention_out_bias"}, kMlpBias},
                  .hasHiddenDropout = true}},
      // Layer norms; a part of each head rotates. Attention and mlp may be parallel, and queries and keys normed, each
      // head with a weight of its own.
      {.modelType = "stablelm",
       .architecture = "StableLmForCausalLM",
       .tensors = withRows(kStableLmRows),
       .names = {.normEpsilon = "layer_norm_eps", .hiddenDropout = "hidden_dropout"},
       .fields =
           {.biases = {{kQkv, "use_qkv_bias"}}, .hasHeadDim = false, .norm = layerNorm(1e-5), .rope = {.part = 0.25}},
       .read = readStableLm},
      {.modelType = "starcoder2", // layer norms, biases, an mlp without a gate, and one window for all layers
       .architecture = "Starcoder2ForCausalLM",
       .neutralFields = {{"scale_attn_weights", "true"}},
       .tensors = withRows(kStarcoder2Rows),
       .names = {.normEpsilon = "norm_epsilon", .hiddenDropout = "residual_dropout"},
       .fields = {.biases = {{kQkv | kOut | kMlp, "use_bias"}},
                  .norm = layerNorm(1e-5),
                  .activation = "gelu_pytorch_tanh",
                  .gated = false,
                  .hasHiddenDropout = true,
                  .hasWindow = true},
       .read =
           [](Reading &reading) {
             reading.model.embedding.dropout = reading.config.probability("embedding_dropout", 0);
           }},
  };
  return kFamilies;
}

} // namespace mgc::frontend
