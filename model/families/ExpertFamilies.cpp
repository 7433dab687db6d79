// Families whose layers have experts, all or some of them, but for DeepSeek and its followers.
#include "model/families/Decoder.h"

namespace mgc::frontend {

static constexpr TensorRow kGptOssRows[] = {{"router.weight", "model.layers.{}.mlp.router.weight", "e h"},
                                            {"router.logits.bias", "model.layers.{}.mlp.router.bias", "e"},
                                            {"experts.down.weight", "model.layers.{}.mlp.experts.down_proj", "e m h"},
                                            {"experts.down.bias", "model.layers.{}.mlp.experts.down_proj_bias", "e y"}};
// Names of Mixtral and MiniMax M2.
static constexpr TensorRow kSparseBlockRows[] = {
    {"router.weight", "model.layers.{}.block_sparse_moe.gate.weight", "e h"},
    {.role = "router.bias",
     .tensor = "model.layers.{}.block_sparse_moe.e_score_correction_bias",
     .dims = "e",
     .movedByLoad = true},
    {"experts.gate.weight", "model.layers.{}.block_sparse_moe.experts.{#}.w1.weight", "e m h"},
    {"experts.up.weight", "model.layers.{}.block_sparse_moe.experts.{#}.w3.weight", "e m h"},
    {"experts.down.weight", "model.layers.{}.block_sparse_moe.experts.{#}.w2.weight", "e h m"}};

// The coefficient of Hugging Face's auxiliary loss, which is part of the loss only where output_router_logits says so.
static void readPooledAuxLoss(Reading &reading) {
  constexpr double kMost = 1e6;
  const double coefficient = reading.config.number("router_aux_loss_coef", 0, 0, kMost);
  if (reading.config.flag("output_router_logits", false))
    reading.model.pooledAuxLoss = coefficient;
}

// --- Experts on all layers

// Without layer_types the first layer has the window, the second none, and so on.
static void readGptOss(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  const int64_t window = config.size("sliding_window", kMaxPositions);
  const std::vector<bool> sliding = readSlidingLayers(reading, [](int64_t layer) { return layer % 2 == 0; });
  Experts experts = readExperts(config, model.names.experts);
  experts.score = "none", experts.post = "softmax";
  experts.logitBias = experts.isZipped = true;
  if (block.mlp.activation != Activation::silu) // the class has one, whatever the file says
    config.refuse("hidden_act", "is not supported", "expected silu: of gpt_oss x sigmoid(1.702 x), clamped");
  block.mlp.activation = Activation::geluQuick;
  block.mlp.bias = block.mlp.upPlusOne = true;
  block.mlp.limit = config.number("swiglu_limit", 7, 1e-6, 1e6);
  readPooledAuxLoss(reading);
  block.attention.sinks = true;
  block.experts = experts;
  reading.each([&](BlockDescription &each, int64_t layer) {
    if (sliding[layer])
      each.attention.window = window;
  });
}

// rotary_dim says in dimensions what partial_rotary_factor says in parts of a head.
static void setRotaryPart(Reading &reading, DecoderFields &fields) {
  const int64_t head = reading.config.sizeOr("head_dim", 0, kMaxHeadDim);
  const int64_t rotating = reading.config.sizeOr("rotary_dim", head, kMaxHeadDim);
  fields.rope.part = head > 0 ? static_cast<double>(rotating) / static_cast<double>(head) : 1;
}

static void readMiniMaxM2(Reading &reading) {
  BlockDescription &block = reading.block;
  block.experts = readExperts(reading.config, reading.model.names.experts);
  block.experts->score = "sigmoid", block.experts->bias = true;
  block.experts->epsilon = 0;
  block.attention.qkNorm = {*reading.model.finalNorm, NormSpan::allHeads};
}

static void readMixtral(Reading &reading) {
  reading.block.experts = readExperts(reading.config, reading.model.names.experts);
  reading.block.experts->epsilon = 0;
  readPooledAuxLoss(reading);
}

static void readNormalised(Config &config, Experts &experts) {
  if (config.flag("norm_topk_prob", false))
    experts.epsilon = 0;
}

static void readOlmoe(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  readClip(reading);
  block.attention.qkNorm = {*model.finalNorm, NormSpan::allHeads};
  block.experts = readExperts(config, model.names.experts);
  readNormalised(config, *block.experts);
  readPooledAuxLoss(reading);
}

// --- Qwen: experts on the layers that decoder_sparse_step and mlp_only_layers say

static std::vector<bool> readSparseLayers(Config &config, int64_t layers) {
  const int64_t step = config.sizeOr("decoder_sparse_step", 1, kMaxLayers);
  std::vector<bool> sparse(layers, false);
  for (int64_t layer = step - 1; layer >= 0 && layer < layers; layer += step)
    sparse[layer] = true;
  if (layers > 0)
    for (int64_t layer : config.counts("mlp_only_layers", 0, layers - 1, /*mayBeEmpty=*/true))
      sparse[layer] = false;
  return sparse;
}

static void readSparse(Reading &reading, Experts experts, const std::vector<int64_t> &windows) {
  Config &config = reading.config;
  const std::vector<bool> sparse = readSparseLayers(config, reading.count);
  readNormalised(config, experts);
  const int64_t ffn = config.size("moe_intermediate_size", kMaxFfn);
  reading.each([&](BlockDescription &block, int64_t layer) {
    if (!windows.empty())
      block.attention.window = windows[layer];
    if (sparse[layer])
      block.experts = experts, block.mlp.ffn = ffn;
  });
}

// Versions of transformers disagree on the layers that have the window where layer_types does not say it.
static void readQwen2Moe(Reading &reading) {
  Config &config = reading.config;
  if (config.flag("use_sliding_window", false) && !config.isSet("layer_types"))
    config.refuse("use_sliding_window", "but layer_types does not say which layers have the window",
                  "expected layer_types with sliding_attention or full_attention for each layer");
  const std::vector<int64_t> windows = readLayerWindows(reading);
  Experts experts = readExperts(config, "num_experts");
  experts.shared = {config.size("shared_expert_intermediate_size", kMaxFfn), /*gated=*/true};
  readSparse(reading, experts, windows);
}

static void readQwen3Moe(Reading &reading) {
  auto &[config, model, block, count, layers] = reading;
  block.attention.qkNorm = {*model.finalNorm}; // the same epsilon
  if (!config.flag("use_sliding_window", false))
    block.attention.window = 0;
  readPooledAuxLoss(reading);
  readSparse(reading, readExperts(config, model.names.experts), {});
}

static KeyNames localNames() { return {.experts = "num_local_experts", .expertFfn = "intermediate_size"}; }

std::span<const Family> expertFamilies() {
  static const Family kFamilies[] = {
      // Attention with sinks and biases, a window on every other layer, yarn; on all layers experts with biases, whose
      // gate and up alternate in one tensor and are clamped, chosen by logits with a bias and weighed by the softmax of
      // those chosen.
      {.modelType = "gpt_oss",
       .architecture = "GptOssForCausalLM",
       .neutralFields = {{"swiglu_alpha", "1.702"}},
       .tensors = withRows(kGptOssRows),
       .names = localNames(),
       .fields = {.biases = {{kQkv | kOut, "attention_bias"}}, .norm = rmsNorm(1e-5)},
       .read = readGptOss},
      // On all layers experts, chosen by sigmoid and a bias; queries and keys are normed over all their heads, and a
      // part of each head rotates.
      {.modelType = "minimax_m2",
       .architecture = "MiniMaxM2ForCausalLM",
       .ignoredFields = {"router_aux_loss_coef"}, // without output_router_logits
       .neutralFields = {{"output_router_logits", "false"},
                         {"router_jitter_noise", "0.0"},
                         {"scoring_func", "\"sigmoid\""},
                         {"use_qk_norm", "true"},
                         {"use_routing_bias", "true"},
                         {"shared_intermediate_size", "0"},
                         {"attention_bias", "false"}},
       .tensors = withRows(kSparseBlockRows),
       .names = localNames(),
       .prepare = setRotaryPart,
       .read = readMiniMaxM2},
      {.modelType = "mixtral", // Mistral with experts
       .architecture = "MixtralForCausalLM",
       .neutralFields = {{"attention_bias", "false"}, {"router_jitter_noise", "0.0"}},
       .tensors = withRows(kSparseBlockRows),
       .names = localNames(),
       .fields = {.norm = rmsNorm(1e-5), .hasWindow = true},
       .read = readMixtral},
      {.modelType = "olmoe", // on all layers; queries and keys are normed over all their heads
       .architecture = "OlmoeForCausalLM",
       .names = {.expertFfn = "intermediate_size"},
       .fields = {.biases = {kAttentionBias}, .norm = rmsNorm(1e-5)},
       .read = readOlmoe},
      // Experts on some layers and a shared expert beside them, times the sigmoid of its gate. The auxiliary loss is
      // part of the loss only where output_router_logits says so.
      {.modelType = "qwen2_moe",
       .architecture = "Qwen2MoeForCausalLM",
       .ignoredFields = {"router_aux_loss_coef"}, // without output_router_logits
       .neutralFields = {{"output_router_logits", "false"}},
       .fields = {.biases = {{kQkv, "qkv_bias"}}},
       .read = readQwen2Moe},
      {.modelType = "qwen3_moe", // experts on some layers, and one sliding window for all layers
       .architecture = "Qwen3MoeForCausalLM",
       .fields = {.biases = {kAttentionBias}, .hasWindow = true},
       .read = readQwen3Moe},
  };
  return kFamilies;
}

} // namespace mgc::frontend
