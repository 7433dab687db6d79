// MiniMax M2: on all layers experts, chosen by sigmoid and a bias; queries and keys are normed over all their heads, and a
// part of each head rotates.
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static constexpr NeutralField kNeutral[] = {
    {"output_router_logits", "false"}, {"router_jitter_noise", "0.0"}, {"scoring_func", "\"sigmoid\""},
    {"use_qk_norm", "true"},           {"use_routing_bias", "true"},   {"shared_intermediate_size", "0"},
    {"attention_bias", "false"}};
// The class has no modules that predict later tokens, and reads none of the others.
static constexpr std::string_view kIgnored[] = {"router_aux_loss_coef",
                                                "qk_norm_type",
                                                "shared_moe_mode",
                                                "attn_type_list",
                                                "use_mtp",
                                                "num_mtp_modules",
                                                "mtp_transformer_layers",
                                                "layernorm_full_attention_beta",
                                                "layernorm_linear_attention_beta",
                                                "layernorm_mlp_beta",
                                                "mlp_intermediate_size",
                                                "auto_map"};

static constexpr TensorRow kRows[] = {
    {"router.weight", "model.layers.{}.block_sparse_moe.gate.weight", "e h"},
    {.role = "router.bias",
     .tensor = "model.layers.{}.block_sparse_moe.e_score_correction_bias",
     .dims = "e",
     .movedByLoad = true},
    {"experts.gate.weight", "model.layers.{}.block_sparse_moe.experts.{#}.w1.weight", "e m h"},
    {"experts.up.weight", "model.layers.{}.block_sparse_moe.experts.{#}.w3.weight", "e m h"},
    {"experts.down.weight", "model.layers.{}.block_sparse_moe.experts.{#}.w2.weight", "e h m"}};

// rotary_dim says in dimensions what partial_rotary_factor says in parts of a head.
static double readRotaryPart(Config &config) {
  const int64_t head = config.sizeOr("head_dim", 128, kMaxHeadDim);
  const int64_t rotating = config.sizeOr("rotary_dim", head, kMaxHeadDim);
  return head > 0 ? static_cast<double>(rotating) / static_cast<double>(head) : 1;
}

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  model.names.experts = "num_local_experts", model.names.expertFfn = model.names.ffn;
  BlockDescription block;
  const int64_t count = readLayerCount(config, model);
  Experts experts = readExperts(config, model.names.experts);
  experts.score = "sigmoid", experts.bias = true;
  experts.epsilon = 0;
  const bool isUsable = readDecoder(config, model, block,
                                    {.headDim = 128, .rope = {.theta = 5e6, .part = readRotaryPart(config)}});
  block.attention.qkNorm = {*model.finalNorm, NormSpan::allHeads};
  block.experts = experts;
  if (isUsable)
    layers.assign(count, block);
}

extern const Family kMiniMaxM2;
const Family kMiniMaxM2 = {"minimax_m2", "MiniMaxM2ForCausalLM", kIgnored, kNeutral, withRows(kRows), read};

} // namespace mgc::frontend
