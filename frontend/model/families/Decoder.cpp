#include "frontend/model/families/Decoder.h"
#include <algorithm>
#include <cmath>

namespace mgc::frontend {

static constexpr std::pair<std::string_view, Activation> kActivationRows[] = {
    {"gelu", Activation::geluErf},
    {"gelu_new", Activation::geluTanh},
    {"gelu_pytorch_tanh", Activation::geluTanh},
    {"gelu_fast", Activation::geluTanh},
    {"quick_gelu", Activation::geluQuick},
    {"relu", Activation::relu},
    {"silu", Activation::silu},
    {"swish", Activation::silu}};
const std::span<const std::pair<std::string_view, Activation>> kActivations = kActivationRows;

static constexpr TensorRow kTensorRows[] = {
    {"embed.tokens", "model.embed_tokens.weight", "v h"},
    {"attn_norm.weight", "model.layers.{}.input_layernorm.weight", "h"},
    {"attn.q.weight", "model.layers.{}.self_attn.q_proj.weight", "grd h"},
    {"attn.q.bias", "model.layers.{}.self_attn.q_proj.bias", "grd"},
    {"attn.k.weight", "model.layers.{}.self_attn.k_proj.weight", "gd h"},
    {"attn.k.bias", "model.layers.{}.self_attn.k_proj.bias", "gd"},
    {"attn.v.weight", "model.layers.{}.self_attn.v_proj.weight", "gd h"},
    {"attn.v.bias", "model.layers.{}.self_attn.v_proj.bias", "gd"},
    {"attn.q_norm.weight", "model.layers.{}.self_attn.q_norm.weight", "d"},
    {"attn.k_norm.weight", "model.layers.{}.self_attn.k_norm.weight", "d"},
    {"attn.o.weight", "model.layers.{}.self_attn.o_proj.weight", "h grd"},
    {"attn.o.bias", "model.layers.{}.self_attn.o_proj.bias", "h"},
    {"mlp_norm.weight", "model.layers.{}.post_attention_layernorm.weight", "h"},
    {"mlp.gate.weight", "model.layers.{}.mlp.gate_proj.weight", "f h"},
    {"mlp.gate.bias", "model.layers.{}.mlp.gate_proj.bias", "f"},
    {"mlp.up.weight", "model.layers.{}.mlp.up_proj.weight", "f h"},
    {"mlp.up.bias", "model.layers.{}.mlp.up_proj.bias", "f"},
    {"mlp.down.weight", "model.layers.{}.mlp.down_proj.weight", "h f"},
    {"mlp.down.bias", "model.layers.{}.mlp.down_proj.bias", "h"},
    {"router.weight", "model.layers.{}.mlp.gate.weight", "e h"},
    {"experts.gate.weight", "model.layers.{}.mlp.experts.{#}.gate_proj.weight", "e m h"},
    {"experts.up.weight", "model.layers.{}.mlp.experts.{#}.up_proj.weight", "e m h"},
    {"experts.down.weight", "model.layers.{}.mlp.experts.{#}.down_proj.weight", "e h m"},
    {"final_norm.weight", "model.norm.weight", "h"},
    {"head.weight", "lm_head.weight", "v h"}};
static constexpr std::string_view kIgnoredTensors[] = {"model.layers.{}.self_attn.rotary_emb.inv_freq"};
constinit const TensorNames kDecoderTensors = {"model.", kTensorRows, kIgnoredTensors};

static void readHeads(Config &config, const ModelDescription &model, AttentionDescription &attention,
                      const DecoderDefaults &defaults) {
  attention.heads = config.size("num_attention_heads", kMaxHeads);
  bool absent = !config.has("num_key_value_heads") && !defaults.groupsMayBeAbsent;
  attention.groups = absent ? config.size("num_key_value_heads", kMaxHeads)
                            : config.sizeOr("num_key_value_heads", attention.heads, kMaxHeads);
  if (attention.heads && attention.groups && attention.heads % attention.groups != 0) {
    config.report().add("num_key_value_heads = {} does not divide num_attention_heads = {}", attention.groups,
                        attention.heads);
    config.report().hint("possible num_key_value_heads: {}", listOf(divisorsOf(attention.heads, kMaxHeads)));
  }
  bool derived = !config.isSet("head_dim") && defaults.headDim == 0;
  attention.headDim = config.sizeOr("head_dim", defaults.headDim, kMaxHeadDim);
  if (!derived || !attention.heads || !model.hidden)
    return;
  attention.headDim = model.hidden / attention.heads;
  if (model.hidden % attention.heads != 0) {
    config.report().add("hidden_size = {} does not divide over num_attention_heads = {}", model.hidden,
                        attention.heads);
    config.report().hint("possible num_attention_heads: {}", listOf(divisorsOf(model.hidden, kMaxHeads)));
  }
}

bool readDecoder(Config &config, ModelDescription &model, BlockDescription &block,
                 const DecoderDefaults &defaults) {
  Problems &problems = config.report();
  model.vocabulary = config.size("vocab_size", kMaxVocabulary);
  model.hidden = config.size("hidden_size", kMaxHidden);
  model.maxPositions = config.size("max_position_embeddings", kMaxPositions);
  model.tiedHead = config.flag("tie_word_embeddings", false);
  model.initializerRange = config.number("initializer_range", 0.02, 0, 1e3);
  model.finalNorm = {NormKind::rms, config.number("rms_norm_eps", 1e-6, 0, 1)};
  block.attentionNorm = block.mlpNorm = model.finalNorm;
  readHeads(config, model, block.attention, defaults);
  block.attention.dropout = config.probability("attention_dropout", 0);
  block.mlp.activation = config.choice("hidden_act", "silu", kActivations);
  block.mlp.gated = true;
  block.mlp.ffn = config.size("intermediate_size", kMaxFfn);
  if (int64_t d = block.attention.headDim; d % 2 != 0)
    problems.add("head_dim = {} is odd; rotary positions turn pairs", d);
  if (block.attention.headDim)
    block.attention.scale = 1 / std::sqrt(static_cast<double>(block.attention.headDim));
  block.attention.rope = readRope(config, block.attention.headDim, defaults.ropeTheta);
  // As torch.nn.Embedding reads it: a negative one counts from the end.
  model.paddingToken = config.integer("pad_token_id", -model.vocabulary, model.vocabulary - 1);
  if (model.paddingToken && *model.paddingToken < 0)
    *model.paddingToken += model.vocabulary;
  return problems.empty();
}

Experts readExperts(Config &config, std::string_view countKey) {
  Experts experts;
  experts.count = config.size(countKey, kMaxExperts);
  experts.chosen = config.size("num_experts_per_tok", kMaxChosen);
  if (experts.count && experts.chosen > experts.count)
    config.refuse("num_experts_per_tok", fmt::format("is more than {} = {}", countKey, experts.count),
                  "expected at most as many as there are experts");
  return experts;
}

void readPooledAuxLoss(Config &config, ModelDescription &model, const std::vector<BlockDescription> &layers) {
  constexpr double kStandard = 0.001, kMost = 1e6;
  const double coefficient = config.number("router_aux_loss_coef", kStandard, 0, kMost);
  const bool hasExperts =
      std::ranges::any_of(layers, [](const BlockDescription &layer) { return layer.experts.has_value(); });
  if (config.flag("output_router_logits", false) && hasExperts)
    model.pooledAuxLoss = coefficient;
}

// layer_types, checked; empty when absent or wrong.
static std::vector<std::string> readLayerTypes(Config &config, int64_t layers) {
  std::vector<std::string> types = config.words("layer_types");
  auto known = [](const std::string &type) {
    return type == "full_attention" || type == "sliding_attention";
  };
  if (!std::all_of(types.begin(), types.end(), known)) {
    config.refuse("layer_types", "is not supported", "supported: full_attention, sliding_attention");
    return {};
  }
  if (config.isSet("layer_types") && static_cast<int64_t>(types.size()) != layers) {
    config.refuse("layer_types", fmt::format("has {} entries", types.size()),
                  fmt::format("expected one for each of num_hidden_layers = {}", layers));
    return {};
  }
  return types;
}

std::vector<int64_t> readLayerWindows(Config &config, int64_t layers) {
  size_t before = config.report().count();
  bool enabled = config.flag("use_sliding_window", false);
  int64_t window = config.sizeOr("sliding_window", 0, kMaxPositions);
  int64_t firstWindowed = config.countOr("max_window_layers", 28, kMaxLayers);
  std::vector<std::string> types = readLayerTypes(config, layers);
  bool sliding = std::find(types.begin(), types.end(), "sliding_attention") != types.end();
  if (sliding && (!enabled || !window)) {
    config.refuse("layer_types", "names sliding_attention, but no window is in use",
                  "set use_sliding_window to true and sliding_window to its size");
  } else if (enabled && !window) {
    config.refuse("use_sliding_window", "but sliding_window gives no size", "");
  }
  if (config.report().count() != before)
    return {};
  std::vector<int64_t> windows(layers, 0);
  for (int64_t layer = 0; enabled && layer < layers; ++layer)
    if (types.empty() ? layer >= firstWindowed : types[layer] == "sliding_attention")
      windows[layer] = window;
  return windows;
}

} // namespace mgc::frontend
