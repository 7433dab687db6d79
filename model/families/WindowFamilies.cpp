// Families like Llama of which some layers have a window, or rotate by other frequencies or not at all, and those that
// share a function with them.
#include "model/families/Decoder.h"

#include <cmath>

namespace mgc::frontend {

static constexpr TensorRow kCohereRows[] = {{"attn.q_norms.weight", "model.layers.{}.self_attn.q_norm.weight", "gr d"},
                                            {"attn.k_norms.weight", "model.layers.{}.self_attn.k_norm.weight", "g d"}};
static constexpr TensorRow kGemmaRows[] = {
    {"mlp_norm.weight", "model.layers.{}.pre_feedforward_layernorm.weight", "h"},
    {"attn_after_norm.weight", "model.layers.{}.post_attention_layernorm.weight", "h"},
    {"mlp_after_norm.weight", "model.layers.{}.post_feedforward_layernorm.weight", "h"}};
// Norms after branches where none are before.
static constexpr TensorRow kNormAfterRows[] = {
    {"attn_after_norm.weight", "model.layers.{}.post_attention_layernorm.weight", "h"},
    {"mlp_after_norm.weight", "model.layers.{}.post_feedforward_layernorm.weight", "h"}};

// These layers may have frequencies of their own.
static void setWindow(Reading &reading, const std::vector<bool> &layers, int64_t window,
                      const std::optional<Rope> &rope = {}) {
  reading.each([&](BlockDescription &block, int64_t layer) {
    if (!layers[layer])
      return;
    block.attention.window = window;
    if (rope)
      block.attention.rope = rope;
  });
}

// Layers without the window do not rotate.
static void setWindowOrNoRope(Reading &reading, const std::vector<bool> &layers, int64_t window) {
  reading.each([&](BlockDescription &block, int64_t layer) {
    if (layers[layer] && window > 0)
      block.attention.window = window;
    else
      block.attention.rope.reset();
  });
}

// The last of each so many layers sees all. Some files have the key behind an underscore.
static int64_t readWindowPattern(Config &config, int64_t fallback) {
  constexpr std::string_view key = "sliding_window_pattern", own = "_sliding_window_pattern";
  const int64_t pattern = config.sizeOr(key, config.sizeOr(own, fallback, kMaxLayers), kMaxLayers);
  if (const int64_t other = config.sizeOr(own, pattern, kMaxLayers); other != pattern && other && pattern)
    config.refuse(key, fmt::format("and {} = {} differ", own, other), "keep one of them");
  return pattern;
}

// --- Command R

static DecoderFields cohereFields() {
  return {.biases = {kAttentionBias}, .norm = {.epsilon = 1e-5}, .rope = {.interleaved = true}};
}

static void readLogitScale(Reading &reading) {
  reading.model.head.scale = reading.config.number("logit_scale", 0.0625, 1e-9, 1e9);
  setParallel(reading.block);
}

static void readCohere(Reading &reading) {
  readLogitScale(reading);
  if (reading.config.flag("use_qk_norm", false))
    reading.block.attention.qkNorm = {*reading.model.finalNorm, NormSpan::eachHead};
}

// Without a window the class rotates nothing.
static void readCohere2(Reading &reading) {
  readLogitScale(reading);
  const int64_t window = readWindow(reading.config);
  setWindowOrNoRope(reading, readSlidingLayers(reading, allButEach(readWindowPattern(reading.config, 4))), window);
}

// --- EXAONE 4

// Published files have layer_types, and a word for the pattern.
static void readExaone4(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  block.attentionBranch = block.mlpBranch = {.after = model.finalNorm};
  block.attention.qkNorm = {*model.finalNorm};
  const int64_t window = readWindow(config);
  const bool hasTypes = config.isSet("layer_types");
  const int64_t pattern = hasTypes ? 1 : config.sizeOr("sliding_window_pattern", 4, kMaxLayers);
  config.ignore(std::array{std::string_view("sliding_window_pattern")});
  const std::vector<bool> sliding = readSlidingLayers(reading, allButEach(window > 0 ? pattern : 1));
  if (window > 0)
    setWindowOrNoRope(reading, sliding, window);
}

// --- Gemma

static DecoderFields gemmaFields(const RopeFields &rope) {
  return {.biases = {kAttentionBias},
          .norm = {.kind = NormKind::rms, .epsilon = 1e-6, .offset = 1},
          .activation = "gelu_pytorch_tanh",
          .rope = rope};
}

static void scaleEmbedding(ModelDescription &model) {
  model.embedding.scale = std::sqrt(static_cast<double>(model.hidden));
}

// The class has the tanh form for "gelu", which the first files say; hidden_activation wins where there are both.
static void readGemma(Reading &reading) {
  Config &config = reading.config;
  Activation &activation = reading.block.mlp.activation;
  scaleEmbedding(reading.model);
  if (activation == Activation::geluErf)
    activation = Activation::geluTanh;
  if (config.isSet("hidden_activation"))
    activation = config.choice("hidden_activation", "", wordsOf(Of<Activation>()));
  config.ignore(std::array{std::string_view("hidden_activation")});
}

// The bound that final_logit_softcapping or attn_logit_softcapping gives; null: none.
static double readSoftcap(Config &config, std::string_view key) { return config.number(key, 0, 1e-6, 1e6); }

// Norms after both branches, a scale of the scores, and the bound of the logits.
static void readGemma2Block(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  scaleEmbedding(model);
  block.attentionBranch.after = block.mlpBranch.after = model.finalNorm;
  block.attention.scale = 1 / std::sqrt(config.number("query_pre_attn_scalar", 256, 1e-6, 1e6));
  model.head.softcap = readSoftcap(config, "final_logit_softcapping");
}

static void readGemma2(Reading &reading) {
  readGemma2Block(reading);
  reading.block.attention.softcap = readSoftcap(reading.config, "attn_logit_softcapping");
  const int64_t window = readWindow(reading.config);
  setWindow(reading, readSlidingLayers(reading, allButEach(2)), window);
}

static void readGemma3Text(Reading &reading) {
  readGemma2Block(reading);
  reading.block.attention.qkNorm = {*reading.model.finalNorm};
  const int64_t window = readWindow(reading.config);
  const std::vector<bool> sliding = readSlidingLayers(reading, allButEach(readWindowPattern(reading.config, 6)));
  setWindow(reading, sliding, window, readRopeOf(reading, "sliding_attention", 10000, "rope_local_base_freq"));
}

// --- OLMo

static DecoderFields olmoFields(const RopeFields &rope) {
  return {.biases = {kAttentionBias}, .norm = rmsNorm(1e-5), .rope = rope};
}

static void readOlmo2(Reading &reading) {
  BlockDescription &block = reading.block;
  block.attentionBranch = block.mlpBranch = {.after = reading.model.finalNorm};
  block.attention.qkNorm = {*reading.model.finalNorm, NormSpan::allHeads};
}

// Where rope_theta stands by itself, versions of transformers disagree on whether layers with a window have it too.
static void readOlmo3(Reading &reading) {
  constexpr double kTheta = 500000;
  Config &config = reading.config;
  readOlmo2(reading);
  const int64_t window = readWindow(config);
  const std::vector<bool> sliding = readSlidingLayers(reading, allButEach(4));
  if (config.number("rope_theta", kTheta, 1, 1e15) != kTheta)
    config.refuse("rope_theta", "is of all layers in transformers 4, and not of those with a window in transformers 5",
                  "expected rope_parameters with full_attention and sliding_attention");
  setWindow(reading, sliding, window, readRopeOf(reading, "sliding_attention", kTheta));
}

// --- Ministral, Qwen

static void readMinistral(Reading &reading) {
  if (!reading.config.isSet("head_dim"))
    reading.config.report().add("head_dim is missing, but required");
  const int64_t window = readWindow(reading.config);
  setWindow(reading, readSlidingLayers(reading, allButEach(0)), window);
}

static void readQwen2(Reading &reading) {
  const std::vector<int64_t> windows = readLayerWindows(reading);
  reading.each([&](BlockDescription &block, int64_t layer) { block.attention.window = windows[layer]; });
}

static void readQwen3(Reading &reading) {
  reading.block.attention.qkNorm = {*reading.model.finalNorm}; // the same epsilon
  readQwen2(reading);
}

// --- SmolLM3

// no_rope_layers has a number for each layer: 1 where it rotates.
static std::vector<bool> readRotating(Config &config, int64_t count) {
  const LayerRule rule = allButEach(config.sizeOr("no_rope_layer_interval", 4, kMaxLayers));
  const std::vector<int64_t> given = config.counts("no_rope_layers", 0, 1);
  const bool isWhole = static_cast<int64_t>(given.size()) == count;
  if (!given.empty() && !isWhole)
    config.refuse("no_rope_layers", fmt::format("has {} entries", given.size()),
                  fmt::format("expected one for each of num_hidden_layers = {}", count));
  std::vector<bool> rotating(count);
  for (int64_t layer = 0; layer < count; ++layer)
    rotating[layer] = isWhole ? given[layer] == 1 : rule(layer);
  return rotating;
}

// Where layer_types is missing, layers that do not rotate have the window.
static void readSmolLm3(Reading &reading) {
  Config &config = reading.config;
  const std::vector<bool> rotating = readRotating(config, reading.count);
  const bool isUsed = config.flag("use_sliding_window", false);
  const int64_t window = isUsed ? config.sizeOr("sliding_window", 0, kMaxPositions) : 0;
  config.ignore(std::array{std::string_view("sliding_window")});
  const std::vector<bool> sliding =
      readSlidingLayers(reading, [&](int64_t layer) { return !rotating[layer]; }, window > 0);
  reading.each([&](BlockDescription &block, int64_t layer) {
    if (sliding[layer])
      block.attention.window = window;
    if (!rotating[layer])
      block.attention.rope.reset();
  });
}

std::span<const Family> windowFamilies() {
  static const Family kFamilies[] = {
      // Command R: parallel branches behind one layer norm without bias, neighbours rotate, scaled logits
      {.modelType = "cohere",
       .architecture = "CohereForCausalLM",
       .tensors = withRows(kCohereRows),
       .names = {.normEpsilon = "layer_norm_eps"},
       .fields = cohereFields(),
       .read = readCohere},
      // Command R7B and A: a window and rotary positions on three of four layers, neither on the fourth
      {.modelType = "cohere2",
       .architecture = "Cohere2ForCausalLM",
       .neutralFields = {{"use_qk_norm", "false"},
                         {"rotary_pct", "1.0"},
                         {"use_parallel_block", "true"},
                         {"use_gated_activation", "true"},
                         {"position_embedding_type", "\"rope_gptj\""}},
       .names = {.normEpsilon = "layer_norm_eps"},
       .fields = cohereFields(),
       .read = readCohere2},
      // A norm after each branch and none before, norms of each head; with a window on some layers the others do not
      // rotate.
      {.modelType = "exaone4",
       .architecture = "Exaone4ForCausalLM",
       .neutralFields = {{"attention_bias", "false"}},
       .tensors = withRows(kNormAfterRows),
       .fields = {.norm = rmsNorm(1e-5)},
       .read = readExaone4},
      // Norms that multiply by 1 + weight, scaled embeddings, and heads of a size of their own
      {.modelType = "gemma",
       .architecture = "GemmaForCausalLM",
       .neutralFields = {{"use_bidirectional_attention", "false"}},
       .fields = gemmaFields({}),
       .read = readGemma},
      // A norm before and one after each branch, bounded scores and logits, a window on every other layer
      {.modelType = "gemma2",
       .architecture = "Gemma2ForCausalLM",
       .neutralFields = {{"use_bidirectional_attention", "false"}},
       .tensors = withRows(kGemmaRows),
       .names = {.activation = "hidden_activation"},
       .fields = gemmaFields({}),
       .read = readGemma2},
      // Gemma 2 with norms of queries and keys in the place of bounded scores, and rotary frequencies of their own on
      // the layers with a window.
      {.modelType = "gemma3_text",
       .architecture = "Gemma3ForCausalLM",
       .neutralFields = {{"use_bidirectional_attention", "false"}, {"attn_logit_softcapping", "null"}},
       .tensors = withRows(kGemmaRows),
       .names = {.activation = "hidden_activation"},
       .fields = gemmaFields({.theta = 1e6, .ofLayers = "full_attention"}),
       .read = readGemma3Text},
      {.modelType = "ministral", // Mistral with a window on the layers that layer_types names
       .architecture = "MinistralForCausalLM",
       .neutralFields = {{"attention_bias", "false"}, {"mlp_bias", "false"}},
       .read = readMinistral},
      // A norm after each branch and none before; queries and keys are normed over all their heads together
      {.modelType = "olmo2",
       .architecture = "Olmo2ForCausalLM",
       .neutralFields = {{"pretraining_tp", "1"}},
       .tensors = withRows(kNormAfterRows),
       .fields = olmoFields({}),
       .read = readOlmo2},
      // OLMo 2 with a window on three of four layers, whose rotary frequencies are not scaled
      {.modelType = "olmo3",
       .architecture = "Olmo3ForCausalLM",
       .neutralFields = {{"pretraining_tp", "1"}},
       .tensors = withRows(kNormAfterRows),
       .fields = olmoFields({.ofLayers = "full_attention"}),
       .read = readOlmo3},
      {.modelType = "qwen2", // and Qwen2.5: biases on q, k and v only, and a sliding window on some layers
       .architecture = "Qwen2ForCausalLM",
       .neutralFields = {{"use_mrope", "false"}},
       .fields = {.biases = {{kQkv}}},
       .read = readQwen2},
      // An RMS norm on each head of q and k, a head size of its own, and a sliding window on some layers
      {.modelType = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .fields = {.biases = {kAttentionBias}},
       .read = readQwen3},
      {.modelType = "smollm3", // no rotary positions on every fourth layer
       .architecture = "SmolLM3ForCausalLM",
       .fields = {.biases = {kAttentionBias, kMlpBias}},
       .read = readSmolLm3},
  };
  return kFamilies;
}

} // namespace mgc::frontend
