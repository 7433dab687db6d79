// DeepSeek-V2 and V3, and GLM-4.5: n_routed_experts of moe_intermediate_size, n_shared_experts of that size as one, and
// routed_scaling_factor, on all layers but the first ones, of first_k_dense_replace.
#include "model/families/Decoder.h"

namespace mgc::frontend {

static constexpr TensorRow kSharedExpertsRows[] = {
    {"shared.gate.weight", "model.layers.{}.mlp.shared_experts.gate_proj.weight", "f h"},
    {"shared.up.weight", "model.layers.{}.mlp.shared_experts.up_proj.weight", "f h"},
    {"shared.down.weight", "model.layers.{}.mlp.shared_experts.down_proj.weight", "h f"}};

// Values of a class if the keys are missing.
struct RoutedDefaults {
  double scale = 1;
  int64_t denseLayers = 0, shared = 0;
};
// Experts as `choose` completes them.
static void readRoutedExperts(Reading &reading, const RoutedDefaults &defaults,
                              void (*choose)(Config &config, Experts &experts)) {
  Config &config = reading.config;
  Experts experts = readExperts(config, "n_routed_experts");
  const int64_t ffn = config.size("moe_intermediate_size", kMaxFfn),
                dense = config.countOr("first_k_dense_replace", defaults.denseLayers, kMaxLayers);
  experts.scale = config.number("routed_scaling_factor", defaults.scale, 1e-6, 1e6);
  if (const int64_t shared = config.countOr("n_shared_experts", defaults.shared, kMaxChosen); shared > 0)
    experts.shared = {shared * ffn};
  choose(config, experts);
  reading.each([&](BlockDescription &block, int64_t layer) {
    if (layer >= dense)
      block.experts = experts, block.mlp.ffn = ffn;
  });
}

// n_group and topk_group: experts are chosen from the best groups, by their `top` best.
static void readGroups(Config &config, int64_t top, Experts &experts, int64_t groups = 1, int64_t kept = 1) {
  experts.groups = config.sizeOr("n_group", groups, kMaxRouterGroups);
  experts.keptGroups = config.sizeOr("topk_group", kept, kMaxRouterGroups);
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
    config.refuse("n_group", fmt::format("leaves groups of {}, which are compared by their {} best experts", size, top),
                  fmt::format("expected groups of {} or more", top));
  if (isChoice)
    experts.groupTop = top;
  else
    experts.groups = experts.keptGroups = 1;
}

// How many modules that predict later tokens a checkpoint has.
static void readLaterTokens(Reading &reading) {
  reading.model.later.inFile = reading.config.countOr("num_nextn_predict_layers", 0, kMaxLaterTokens);
}

// Chosen by sigmoid and a bias; absent is true to the classes, null is not.
static void setSigmoid(Config &config, Experts &experts) {
  experts.score = "sigmoid", experts.bias = true;
  if (config.flag("norm_topk_prob", true))
    experts.epsilon = 1e-20;
}

static void readDeepseekV2(Reading &reading) {
  readRoutedExperts(reading, {.shared = 2}, [](Config &config, Experts &experts) {
    static constexpr std::pair<std::string_view, bool> kMethods[] = {{"greedy", false}, {"group_limited_greedy", true}};
    Experts grouped = experts;
    readGroups(config, 1, grouped);
    if (config.choice<bool>("topk_method", "greedy", kMethods))
      experts = grouped;
  });
}

static void readDeepseekV3(Reading &reading) {
  readLaterTokens(reading);
  reading.block.attention.rope->interleaved = reading.config.flag("rope_interleave", true);
  readRoutedExperts(reading, {.scale = 2.5, .denseLayers = 3, .shared = 1}, [](Config &config, Experts &experts) {
    setSigmoid(config, experts);
    readGroups(config, 2, experts, 8, 4);
  });
}

static void readGlm4Moe(Reading &reading) {
  readLaterTokens(reading);
  if (reading.config.flag("use_qk_norm", false))
    reading.block.attention.qkNorm = {*reading.model.finalNorm}; // the same epsilon
  readRoutedExperts(reading, {.denseLayers = 1, .shared = 1}, [](Config &config, Experts &experts) {
    setSigmoid(config, experts);
    readGroups(config, 2, experts);
  });
}

static KeyNames routedNames() {
  return {.experts = "n_routed_experts", .sharedFfn = "n_shared_experts * moe_intermediate_size"};
}

std::span<const Family> deepseekFamilies() {
  static const Family kFamilies[] = {
      // Latent attention, and experts behind some dense layers, chosen by softmax, of all or of the best groups. The
      // class in transformers has no auxiliary loss.
      {.modelType = "deepseek_v2",
       .architecture = "DeepseekV2ForCausalLM",
       .ignoredFields = {"aux_loss_alpha", "seq_aux"},
       .neutralFields = {{"output_router_logits", "false"},
                         {"norm_topk_prob", "false"},
                         {"mlp_bias", "false"},
                         {"scoring_func", "\"softmax\""},
                         {"moe_layer_freq", "1"},
                         {"pretraining_tp", "1"}},
       .tensors = withRows(kSharedExpertsRows),
       .names = routedNames(),
       .fields = {.biases = {kAttentionBias}, .rope = {.interleaved = true}, .isLatent = true},
       .read = readDeepseekV2},
      // V3 and R1: latent attention, and experts behind some dense layers, chosen by sigmoid and a bias from the best
      // groups. The class in transformers has no auxiliary loss.
      {.modelType = "deepseek_v3",
       .otherType = "kimi_k2",
       .architecture = "DeepseekV3ForCausalLM",
       .neutralFields = {{"output_router_logits", "false"},
                         {"scoring_func", "\"sigmoid\""},
                         {"topk_method", "\"noaux_tc\""},
                         {"moe_layer_freq", "1"},
                         {"pretraining_tp", "1"}},
       .tensors = withRows(kSharedExpertsRows),
       .names = routedNames(),
       .fields = {.biases = {kAttentionBias}, .isLatent = true},
       .read = readDeepseekV3},
      {.modelType = "glm4_moe", // GLM-4.5: as those of DeepSeek-V3; a part of each head rotates
       .architecture = "Glm4MoeForCausalLM",
       .neutralFields = {{"output_router_logits", "false"}},
       .tensors = withRows(kSharedExpertsRows),
       .names = routedNames(),
       .fields = {.biases = {{kQkv, "attention_bias"}}, .norm = rmsNorm(1e-5), .rope = {.part = 0.5}},
       .read = readGlm4Moe},
  };
  return kFamilies;
}

} // namespace mgc::frontend
