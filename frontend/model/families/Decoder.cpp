#include "frontend/model/families/Decoder.h"
#include <algorithm>
#include <cmath>

namespace mgc::frontend {

static constexpr TensorRow kTensorRows[] = {
    {"embed.tokens", "model.embed_tokens.weight", "v h"},
    {"embed.positions", "model.embed_positions.weight", "p h"},
    {"embed_norm.weight", "model.embed_layernorm.weight", "h"},
    {"embed_norm.bias", "model.embed_layernorm.bias", "h"},
    {"embed.project.weight", "model.embed_project.weight", "h i"},
    {"embed.project.bias", "model.embed_project.bias", "h"},
    {"attn_norm.weight", "model.layers.{}.input_layernorm.weight", "h"},
    {"attn_norm.bias", "model.layers.{}.input_layernorm.bias", "h"},
    {"attn_after_norm.weight", "model.layers.{}.post_self_attn_layernorm.weight", "h"},
    {"attn_after_norm.bias", "model.layers.{}.post_self_attn_layernorm.bias", "h"},
    {"attn_sum_norm.weight", "model.layers.{}.attn_sum_layernorm.weight", "h"},
    {"attn_sum_norm.bias", "model.layers.{}.attn_sum_layernorm.bias", "h"},
    {"attn.q.weight", "model.layers.{}.self_attn.q_proj.weight", "grd h"},
    {"attn.q.bias", "model.layers.{}.self_attn.q_proj.bias", "grd"},
    {"attn.k.weight", "model.layers.{}.self_attn.k_proj.weight", "gd h"},
    {"attn.k.bias", "model.layers.{}.self_attn.k_proj.bias", "gd"},
    {"attn.v.weight", "model.layers.{}.self_attn.v_proj.weight", "gd h"},
    {"attn.v.bias", "model.layers.{}.self_attn.v_proj.bias", "gd"},
    {"attn.q_norm.weight", "model.layers.{}.self_attn.q_norm.weight", "d"},
    {"attn.k_norm.weight", "model.layers.{}.self_attn.k_norm.weight", "d"},
    {"attn.q_norm.bias", "model.layers.{}.self_attn.q_norm.bias", "d"},
    {"attn.k_norm.bias", "model.layers.{}.self_attn.k_norm.bias", "d"},
    {"attn.q_norms.weight", "model.layers.{}.self_attn.q_norm.weight", "grd"},
    {"attn.k_norms.weight", "model.layers.{}.self_attn.k_norm.weight", "gd"},
    {"attn.q_norms.bias", "model.layers.{}.self_attn.q_norm.bias", "grd"},
    {"attn.k_norms.bias", "model.layers.{}.self_attn.k_norm.bias", "gd"},
    {"attn.gate.weight", "model.layers.{}.self_attn.gate_proj.weight", "grw h"},
    {"attn.gate.bias", "model.layers.{}.self_attn.gate_proj.bias", "grw"},
    {"attn.sinks", "model.layers.{}.self_attn.sinks", "gr"},
    {"attn.relative_bias", "model.relative_attention_bias.weight", "n gr"},
    {"attn.o.weight", "model.layers.{}.self_attn.o_proj.weight", "h grw"},
    {"attn.q_a.weight", "model.layers.{}.self_attn.q_a_proj.weight", "q h"},
    {"attn.q_a.bias", "model.layers.{}.self_attn.q_a_proj.bias", "q"},
    {"attn.q_a_norm.weight", "model.layers.{}.self_attn.q_a_layernorm.weight", "q"},
    {"attn.q_a_norm.bias", "model.layers.{}.self_attn.q_a_layernorm.bias", "q"},
    {"attn.q_b.weight", "model.layers.{}.self_attn.q_b_proj.weight", "grd q"},
    {"attn.kv_a.weight", "model.layers.{}.self_attn.kv_a_proj_with_mqa.weight", "z h"},
    {"attn.kv_a.bias", "model.layers.{}.self_attn.kv_a_proj_with_mqa.bias", "z"},
    {"attn.kv_a_norm.weight", "model.layers.{}.self_attn.kv_a_layernorm.weight", "l"},
    {"attn.kv_a_norm.bias", "model.layers.{}.self_attn.kv_a_layernorm.bias", "l"},
    {"attn.kv_b.weight", "model.layers.{}.self_attn.kv_b_proj.weight", "gx l"},
    {"attn.o.bias", "model.layers.{}.self_attn.o_proj.bias", "h"},
    {"mlp_norm.weight", "model.layers.{}.post_attention_layernorm.weight", "h"},
    {"mlp_norm.bias", "model.layers.{}.post_attention_layernorm.bias", "h"},
    {"mlp_after_norm.weight", "model.layers.{}.post_mlp_layernorm.weight", "h"},
    {"mlp_after_norm.bias", "model.layers.{}.post_mlp_layernorm.bias", "h"},
    {"mlp_sum_norm.weight", "model.layers.{}.mlp_sum_layernorm.weight", "h"},
    {"mlp_sum_norm.bias", "model.layers.{}.mlp_sum_layernorm.bias", "h"},
    {"mlp.gate.weight", "model.layers.{}.mlp.gate_proj.weight", "f h"},
    {"mlp.gate.bias", "model.layers.{}.mlp.gate_proj.bias", "f"},
    {"mlp.up.weight", "model.layers.{}.mlp.up_proj.weight", "f h"},
    {"mlp.up.bias", "model.layers.{}.mlp.up_proj.bias", "f"},
    {"mlp.down.weight", "model.layers.{}.mlp.down_proj.weight", "h f"},
    {"mlp.down.bias", "model.layers.{}.mlp.down_proj.bias", "h"},
    {"cross.q.weight", "model.layers.{}.cross_attn.q_proj.weight", "grd h"},
    {"cross.q.bias", "model.layers.{}.cross_attn.q_proj.bias", "grd"},
    {"cross.k.weight", "model.layers.{}.cross_attn.k_proj.weight", "gd h"},
    {"cross.k.bias", "model.layers.{}.cross_attn.k_proj.bias", "gd"},
    {"cross.v.weight", "model.layers.{}.cross_attn.v_proj.weight", "gd h"},
    {"cross.v.bias", "model.layers.{}.cross_attn.v_proj.bias", "gd"},
    {"cross.q_norm.weight", "model.layers.{}.cross_attn.q_norm.weight", "d"},
    {"cross.k_norm.weight", "model.layers.{}.cross_attn.k_norm.weight", "d"},
    {"cross.q_norm.bias", "model.layers.{}.cross_attn.q_norm.bias", "d"},
    {"cross.k_norm.bias", "model.layers.{}.cross_attn.k_norm.bias", "d"},
    {"cross.q_norms.weight", "model.layers.{}.cross_attn.q_norm.weight", "grd"},
    {"cross.k_norms.weight", "model.layers.{}.cross_attn.k_norm.weight", "gd"},
    {"cross.q_norms.bias", "model.layers.{}.cross_attn.q_norm.bias", "grd"},
    {"cross.k_norms.bias", "model.layers.{}.cross_attn.k_norm.bias", "gd"},
    {"cross.gate.weight", "model.layers.{}.cross_attn.gate_proj.weight", "grw h"},
    {"cross.gate.bias", "model.layers.{}.cross_attn.gate_proj.bias", "grw"},
    {"cross.sinks", "model.layers.{}.cross_attn.sinks", "gr"},
    {"cross.o.weight", "model.layers.{}.cross_attn.o_proj.weight", "h grw"},
    {"cross.o.bias", "model.layers.{}.cross_attn.o_proj.bias", "h"},
    {"cross_norm.weight", "model.layers.{}.cross_layernorm.weight", "h"},
    {"cross_norm.bias", "model.layers.{}.cross_layernorm.bias", "h"},
    {"cross_after_norm.weight", "model.layers.{}.post_cross_attn_layernorm.weight", "h"},
    {"cross_after_norm.bias", "model.layers.{}.post_cross_attn_layernorm.bias", "h"},
    {"cross_sum_norm.weight", "model.layers.{}.cross_sum_layernorm.weight", "h"},
    {"cross_sum_norm.bias", "model.layers.{}.cross_sum_layernorm.bias", "h"},
    {"router.weight", "model.layers.{}.mlp.gate.weight", "e h"},
    {.role = "router.bias",
     .tensor = "model.layers.{}.mlp.gate.e_score_correction_bias",
     .dims = "e",
     .movedByLoad = true},
    {"experts.gate.weight", "model.layers.{}.mlp.experts.{#}.gate_proj.weight", "e m h"},
    {"experts.up.weight", "model.layers.{}.mlp.experts.{#}.up_proj.weight", "e m h"},
    {"experts.down.weight", "model.layers.{}.mlp.experts.{#}.down_proj.weight", "e h m"},
    {"experts.gate.bias", "model.layers.{}.mlp.experts.{#}.gate_proj.bias", "e m"},
    {"experts.up.bias", "model.layers.{}.mlp.experts.{#}.up_proj.bias", "e m"},
    {"experts.down.bias", "model.layers.{}.mlp.experts.{#}.down_proj.bias", "e y"},
    {"experts.gate_up.weight", "model.layers.{}.mlp.experts.gate_up_proj", "e h mj"},
    {"experts.gate_up.bias", "model.layers.{}.mlp.experts.gate_up_proj_bias", "e mj"},
    {"shared.gate.weight", "model.layers.{}.mlp.shared_expert.gate_proj.weight", "f h"},
    {"shared.up.weight", "model.layers.{}.mlp.shared_expert.up_proj.weight", "f h"},
    {"shared.down.weight", "model.layers.{}.mlp.shared_expert.down_proj.weight", "h f"},
    {"shared.scale.weight", "model.layers.{}.mlp.shared_expert_gate.weight", " h"},
    {"later.token_norm.weight", "model.layers.{}.enorm.weight", "h"},
    {"later.hidden_norm.weight", "model.layers.{}.hnorm.weight", "h"},
    {"later.token.weight", "model.layers.{}.eh_proj.weight", "h i|i", "token", 0},
    {"later.hidden.weight", "model.layers.{}.eh_proj.weight", "h i|i", "hidden", 1},
    {"later.norm.weight", "model.layers.{}.shared_head.norm.weight", "h"},
    {"later.embed.tokens", "model.layers.{}.embed_tokens.weight", "v h"},
    {"later.head.weight", "model.layers.{}.shared_head.head.weight", "v h"},
    {"final_norm.weight", "model.norm.weight", "h"},
    {"final_norm.bias", "model.norm.bias", "h"},
    {"head.weight", "lm_head.weight", "v h"},
    {"head.bias", "lm_head.bias", "v"},
    {"embed.types", "model.embed_token_types.weight", "a h"},
    {"head.transform.weight", "lm_head.dense.weight", "i h"},
    {"head.transform.bias", "lm_head.dense.bias", "i"},
    {"head.transform_norm.weight", "lm_head.layer_norm.weight", "i"},
    {"head.transform_norm.bias", "lm_head.layer_norm.bias", "i"},
    {"router.logits.bias", "model.layers.{}.mlp.gate.bias", "e"}};
static constexpr TensorRow kRowsOfSharedExperts[] = {
    {"shared.gate.weight", "model.layers.{}.mlp.shared_experts.gate_proj.weight", "f h"},
    {"shared.up.weight", "model.layers.{}.mlp.shared_experts.up_proj.weight", "f h"},
    {"shared.down.weight", "model.layers.{}.mlp.shared_experts.down_proj.weight", "h f"}};
constinit const std::span<const TensorRow> kSharedExpertsRows(kRowsOfSharedExperts);
static constexpr std::string_view kIgnoredTensors[] = {"model.layers.{}.self_attn.rotary_emb.inv_freq"};
constinit const TensorNames kDecoderTensors = {"model.", kTensorRows, kIgnoredTensors};

static void readHeads(Config &config, const ModelDescription &model, AttentionDescription &attention,
                      const DecoderFields &fields) {
  const KeyNames &names = model.names;
  attention.heads = config.size(names.heads, kMaxHeads);
  if (names.groups == names.heads)
    attention.groups = attention.heads;
  else if (!config.has(names.groups) && !fields.groupsMayBeAbsent)
    attention.groups = config.size(names.groups, kMaxHeads);
  else
    attention.groups = config.sizeOr(names.groups, attention.heads, kMaxHeads);
  if (attention.heads && attention.groups && attention.heads % attention.groups != 0) {
    config.report().add("{} = {} does not divide {} = {}", names.groups, attention.groups, names.heads,
                        attention.heads);
    config.report().hint("possible {}: {}", names.groups, listOf(divisorsOf(attention.heads, kMaxHeads)));
  }
  const bool isDerived = !fields.hasHeadDim || (!config.isSet(names.headDim) && fields.headDim == 0);
  if (fields.hasHeadDim)
    attention.headDim = config.sizeOr(names.headDim, fields.headDim, kMaxHeadDim);
  if (!isDerived || !attention.heads || !model.hidden)
    return;
  attention.headDim = model.hidden / attention.heads;
  if (model.hidden % attention.heads != 0) {
    config.report().add("{} = {} does not divide over {} = {}", names.hidden, model.hidden, names.heads,
                        attention.heads);
    config.report().hint("possible {}: {}", names.heads, listOf(divisorsOf(model.hidden, kMaxHeads)));
  }
}

// Each head has keys and values of its own. The classes norm latents with an epsilon of their own, whatever rms_norm_eps
// says.
static void readLatentHeads(Config &config, AttentionDescription &attention) {
  constexpr double kLatentEpsilon = 1e-6;
  LatentAttention latent;
  attention.heads = attention.groups = config.size("num_attention_heads", kMaxHeads);
  if (config.sizeOr("num_key_value_heads", attention.heads, kMaxHeads) != attention.heads)
    config.refuse("num_key_value_heads", fmt::format("is not num_attention_heads = {}", attention.heads),
                  "keys and values of latent attention are made for each head");
  latent.queryRank = config.sizeOr("q_lora_rank", 0, kMaxHidden);
  if (!config.has("q_lora_rank")) { // to the classes absent is 1536
    config.report().add("q_lora_rank is missing, but required");
    config.report().hint("expected the size of the queries' latent, or null for none");
  }
  latent.keyRank = config.size("kv_lora_rank", kMaxHidden);
  latent.rotaryDim = config.size("qk_rope_head_dim", kMaxHeadDim);
  latent.valueDim = config.size("v_head_dim", kMaxHeadDim);
  latent.norm = rmsNorm(kLatentEpsilon);
  const int64_t still = config.size("qk_nope_head_dim", kMaxHeadDim);
  attention.headDim = still + latent.rotaryDim;
  for (const auto &[key, value] :
       {std::pair("qk_head_dim", attention.headDim), {"head_dim", latent.rotaryDim}})
    if (const int64_t found = config.sizeOr(key, value, 2 * kMaxHeadDim); found != value && found && value)
      config.refuse(
          key,
          fmt::format("contradicts qk_nope_head_dim = {} and qk_rope_head_dim = {}", still, latent.rotaryDim),
          fmt::format("expected {}", value));
  attention.latent = latent;
}

KeyNames gptNames() {
  return {.heads = "n_head",
          .groups = "n_head",
          .ffn = "n_inner",
          .layers = "n_layer",
          .positions = "n_positions",
          .hidden = "n_embd",
          .normEpsilon = "layer_norm_epsilon",
          .activation = "activation_function",
          .attentionDropout = "attn_pdrop"};
}

int64_t readLayerCount(Config &config, const ModelDescription &model) {
  return config.size(model.names.layers, kMaxLayers);
}

static void readRotation(Config &config, const ModelDescription &model, AttentionDescription &attention,
                         RopeFields fields) {
  const int64_t turning = attention.latent ? attention.latent->rotaryDim : attention.headDim;
  if (turning % 2 != 0)
    config.report().add("{} = {} is odd; rotary positions turn pairs",
                        attention.latent ? "qk_rope_head_dim" : "head_dim", turning);
  fields.maxPositions = model.maxPositions;
  const RopeOfFile file = readRope(config, turning, fields);
  attention.rope = file.rope;
  if (attention.latent)
    attention.scale = file.scoreScale * file.scoreScale / std::sqrt(static_cast<double>(attention.headDim));
}

static void readMlp(Config &config, const ModelDescription &model, Mlp &mlp, const DecoderFields &fields) {
  const KeyNames &names = model.names;
  const auto words = wordsOf(Of<Activation>());
  mlp.gated = true;
  mlp.activation =
      names.activation.empty()
          ? std::ranges::find(words, fields.activation, [](auto &row) { return row.first; })->second
          : config.choice(names.activation, fields.activation, words);
  const int64_t derived = fields.ffnOverHidden * model.hidden;
  if (names.ffn.empty())
    mlp.ffn = derived;
  else
    mlp.ffn = fields.ffnOverHidden > 0 ? config.sizeOr(names.ffn, derived, kMaxFfn)
                                       : config.size(names.ffn, kMaxFfn);
}

bool readDecoder(Config &config, ModelDescription &model, BlockDescription &block,
                 const DecoderFields &fields) {
  const KeyNames &names = model.names;
  AttentionDescription &attention = block.attention;
  model.vocabulary = config.size("vocab_size", kMaxVocabulary);
  model.hidden = config.size(names.hidden, kMaxHidden);
  model.maxPositions = names.positions.empty() ? kMaxPositions
                       : fields.positions > 0
                           ? config.sizeOr(names.positions, fields.positions, kMaxPositions)
                           : config.size(names.positions, kMaxPositions);
  model.head.tied = config.flag("tie_word_embeddings", fields.isTied);
  model.initializerRange = config.number("initializer_range", fields.initializerRange, 0, 1e3);
  Norm norm = fields.norm;
  if (!names.normEpsilon.empty())
    norm.epsilon = config.number(names.normEpsilon, norm.epsilon, 0, 1);
  model.finalNorm = block.attentionBranch.before = block.mlpBranch.before = norm;
  if (fields.isLatent)
    readLatentHeads(config, attention);
  else
    readHeads(config, model, attention, fields);
  attention.dropout =
      names.attentionDropout.empty() ? 0 : config.probability(names.attentionDropout, fields.dropout);
  readMlp(config, model, block.mlp, fields);
  if (fields.hasRope)
    readRotation(config, model, attention, fields.rope);
  if (!fields.hasPadding)
    return config.report().empty();
  // As torch.nn.Embedding reads it: a negative one counts from the end.
  model.paddingToken = config.has("pad_token_id")
                           ? config.integer("pad_token_id", -model.vocabulary, model.vocabulary - 1)
                           : fields.paddingToken;
  if (model.paddingToken && *model.paddingToken < 0)
    *model.paddingToken += model.vocabulary;
  if (!config.has("pad_token_id") && model.vocabulary && model.paddingToken.value_or(0) >= model.vocabulary)
    config.report().add("pad_token_id is missing, and that of the class, {}, is none of the {} tokens",
                        *model.paddingToken, model.vocabulary);
  return config.report().empty();
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

RoutedExperts readRoutedExperts(Config &config, const RoutedDefaults &defaults) {
  RoutedExperts routed = {readExperts(config, "n_routed_experts"),
                          config.size("moe_intermediate_size", kMaxFfn),
                          config.countOr("first_k_dense_replace", defaults.denseLayers, kMaxLayers)};
  routed.experts.scale = config.number("routed_scaling_factor", defaults.scale, 1e-6, 1e6);
  if (const int64_t shared = config.countOr("n_shared_experts", defaults.shared, kMaxChosen); shared > 0)
    routed.experts.shared = {shared * routed.ffn};
  return routed;
}

void readGroups(Config &config, int64_t top, Experts &experts, const GroupDefaults &defaults) {
  experts.groups = config.sizeOr("n_group", defaults.groups, kMaxRouterGroups);
  experts.keptGroups = config.sizeOr("topk_group", defaults.kept, kMaxRouterGroups);
  if (!experts.count || !experts.groups || !experts.keptGroups)
    return;
  if (experts.count % experts.groups != 0)
    return config.refuse("n_group", fmt::format("does not divide n_routed_experts = {}", experts.count),
                         "possible n_group: " + listOf(divisorsOf(experts.count, kMaxRouterGroups)));
  const int64_t size = experts.count / experts.groups;
  const bool isChoice = experts.keptGroups < experts.groups;
  if (experts.keptGroups > experts.groups || experts.keptGroups * size < experts.chosen)
    config.refuse("topk_group", fmt::format("of n_group = {} groups of {} experts", experts.groups, size),
                  fmt::format("expected {} to {}: a token chooses num_experts_per_tok = {} experts",
                              (experts.chosen + size - 1) / size, experts.groups, experts.chosen));
  else if (isChoice && size < top)
    config.refuse("n_group",
                  fmt::format("leaves groups of {}, which are compared by their {} best experts", size, top),
                  fmt::format("expected groups of {} or more", top));
  if (isChoice)
    experts.groupTop = top;
  else
    experts.groups = experts.keptGroups = 1;
}

std::vector<BlockDescription> layersOf(const RoutedExperts &routed, const BlockDescription &dense,
                                       int64_t count) {
  std::vector<BlockDescription> layers(count, dense);
  for (int64_t layer = routed.denseLayers; layer < count; ++layer)
    layers[layer].experts = routed.experts, layers[layer].mlp.ffn = routed.ffn;
  return layers;
}

void readLaterTokens(Config &config, ModelDescription &model) {
  model.later.inFile = config.countOr("num_nextn_predict_layers", 0, kMaxLaterTokens);
}

std::vector<bool> readSparseLayers(Config &config, int64_t layers) {
  const int64_t step = config.sizeOr("decoder_sparse_step", 1, kMaxLayers);
  std::vector<bool> sparse(layers, false);
  for (int64_t layer = step - 1; layer >= 0 && layer < layers; layer += step)
    sparse[layer] = true;
  if (layers > 0)
    for (int64_t layer : config.counts("mlp_only_layers", 0, layers - 1, /*mayBeEmpty=*/true))
      sparse[layer] = false;
  return sparse;
}

void readPooledAuxLoss(Config &config, ModelDescription &model, double defaultCoefficient) {
  constexpr double kMost = 1e6;
  const double coefficient = config.number("router_aux_loss_coef", defaultCoefficient, 0, kMost);
  if (config.flag("output_router_logits", false))
    model.pooledAuxLoss = coefficient;
}

std::vector<std::string> readLayerTypes(Config &config, int64_t layers) {
  const size_t before = config.report().count();
  std::vector<std::string> types = config.words("layer_types");
  if (config.report().count() != before)
    return {};
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

std::vector<bool> readSlidingLayers(Config &config, int64_t layers, int64_t every) {
  const std::vector<std::string> types = readLayerTypes(config, layers);
  std::vector<bool> sliding(layers);
  for (int64_t layer = 0; layer < layers; ++layer)
    sliding[layer] =
        types.empty() ? every == 0 || (layer + 1) % every != 0 : types[layer] == "sliding_attention";
  return sliding;
}

int64_t readWindow(Config &config, int64_t fallback) {
  return config.sizeOr("sliding_window", config.has("sliding_window") ? 0 : fallback, kMaxPositions);
}

int64_t readWindowPattern(Config &config, int64_t fallback) {
  constexpr std::string_view key = "sliding_window_pattern", own = "_sliding_window_pattern";
  const int64_t pattern = config.sizeOr(key, config.sizeOr(own, fallback, kMaxLayers), kMaxLayers);
  if (const int64_t other = config.sizeOr(own, pattern, kMaxLayers); other != pattern && other && pattern)
    config.refuse(key, fmt::format("and {} = {} differ", own, other), "keep one of them");
  return pattern;
}

TensorNames withRows(std::span<const TensorRow> rows) {
  TensorNames names = kDecoderTensors;
  names.ownRows = rows;
  return names;
}

std::vector<int64_t> readLayerWindows(Config &config, int64_t layers) {
  size_t before = config.report().count();
  bool enabled = config.flag("use_sliding_window", false);
  int64_t window = config.countOr("sliding_window", 0, kMaxPositions);
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
