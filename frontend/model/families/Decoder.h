// Llama and the families that follow it share the names of fields and tensors, and how they are read. A
// family then sets its own facts.
#pragma once

#include "frontend/model/families/Family.h"

namespace mgc::frontend {

// Limits of sizes: far above every model, low enough that the bytes of all parameters are counted in 64 bits.
// Products with the sequence and the batch are checked with the layout (frontend/layout/LayoutChecks.cpp).
inline constexpr int64_t kMaxHidden = 1 << 18, kMaxHeads = 1 << 12, kMaxHeadDim = 1 << 12,
                         kMaxLayers = 1 << 12, kMaxFfn = 1 << 24, kMaxVocabulary = 1 << 28,
                         kMaxPositions = 1 << 30, kMaxExperts = 1 << 12, kMaxChosen = 64;

// Words of hidden_act and activation_function.
extern const std::span<const std::pair<std::string_view, Activation>> kActivations;

struct DecoderDefaults {                 // of fields that are absent or null; 0: see there
  int64_t headDim = 0;                   // 0: hidden_size / num_attention_heads
  bool groupsMayBeAbsent = false;        // then num_attention_heads
  double ropeTheta = 0;                  // 0: required
  double normEpsilon = 1e-6;             // of rms_norm_eps
  std::optional<double> rotaryPart = {}; // of partial_rotary_factor; none: all of a head rotates
  bool isLatent = false; // heads are DeepSeek's: q_lora_rank, kv_lora_rank, qk_nope_head_dim, ..
};

// Reads the fields all of them have into the model and into `block`. False when the sizes are not usable; the
// problems are recorded then.
bool readDecoder(Config &config, ModelDescription &model, BlockDescription &block,
                 const DecoderDefaults &defaults);

// How many experts a layer has and a token chooses.
Experts readExperts(Config &config, std::string_view countKey);

// Experts as DeepSeek names them: n_routed_experts of moe_intermediate_size, n_shared_experts of that size as one, and
// routed_scaling_factor, on all layers but the first ones, of first_k_dense_replace.
struct RoutedExperts {
  Experts experts;
  int64_t ffn = 0, denseLayers = 0;
};
// Defaults of the keys where a config.json lacks them: those of the family's class in transformers.
struct RoutedDefaults {
  double scale = 1;
  int64_t denseLayers = 0, shared = 0;
};
RoutedExperts readRoutedExperts(Config &config, const RoutedDefaults &defaults);
// n_group and topk_group: experts are chosen from the best groups, by their `top` best.
struct GroupDefaults {
  int64_t groups = 1, kept = 1;
};
void readGroups(Config &config, int64_t top, Experts &experts, const GroupDefaults &defaults = {});
// So many layers, of which those behind the dense ones have the experts.
std::vector<BlockDescription> layersOf(const RoutedExperts &routed, const BlockDescription &dense,
                                       int64_t count);

// How many modules that predict later tokens a checkpoint has, from num_nextn_predict_layers (DeepSeek).
void readLaterTokens(Config &config, ModelDescription &model);

// Which layers have experts, from decoder_sparse_step and mlp_only_layers (Qwen).
std::vector<bool> readSparseLayers(Config &config, int64_t layers);
// The coefficient of Hugging Face's auxiliary loss, which is part of the loss only where output_router_logits says so.
void readPooledAuxLoss(Config &config, ModelDescription &model, double defaultCoefficient = 0.001);

// layer_types, checked: full_attention or sliding_attention; empty when absent or wrong.
std::vector<std::string> readLayerTypes(Config &config, int64_t layers);

// The attention window of each layer, 0 for none, from use_sliding_window, sliding_window, max_window_layers
// and layer_types (Qwen). Empty when a problem was recorded.
std::vector<int64_t> readLayerWindows(Config &config, int64_t layers);

// Tensors of the Llama layout with every bias and norm that some family has.
extern const TensorNames kDecoderTensors;
// DeepSeek's names of shared experts; and with them outputs of attention whose heads of values have their own size.
extern const std::span<const TensorRow> kSharedExpertsRows, kDeepseekRows;

} // namespace mgc::frontend
