// Llama and the families that follow it share the names of fields and tensors, and how they are read. A
// family then sets its own facts.
#pragma once

#include "frontend/model/Vocabulary.h"
#include "frontend/model/families/Family.h"

namespace mgc::frontend {

// How a family spells what all decoders have, and what its class in transformers takes where a config.json is silent. Keys that
// are not here are those of model.names, of which "" says that the class reads none: then what stands here holds.
struct DecoderFields {
  bool hasHeadDim = true; // the class reads head_dim; else a head is hidden_size / num_attention_heads
  int64_t headDim = 0;    // of head_dim; 0: that too
  bool groupsMayBeAbsent = false; // then num_attention_heads
  Norm norm =
      rmsNorm(1e-6); // of every branch and behind the layers, but for its epsilon, which the file may have
  std::string_view activation = "silu";
  int64_t ffnOverHidden = 0; // > 0: of the mlp's width; else it is required
  double dropout = 0;        // of the attention's probabilities
  int64_t positions = 0;     // 0: they are required
  bool isTied = false;
  double initializerRange = 0.02;
  bool hasRope = true;
  RopeFields rope = {};
  bool hasPadding = true; // the embedding of pad_token_id gets no gradient where it is a token
  std::optional<int64_t> paddingToken = {}; // where the key is missing
  bool isLatent = false; // heads are DeepSeek's: q_lora_rank, kv_lora_rank, qk_nope_head_dim, ..
};

// Reads the fields all of them have into the model and into `block`: a serial layer with a norm before each branch, a gated
// mlp, scores over the root of the head's size. False when the sizes are not usable; the problems are recorded then.
bool readDecoder(Config &config, ModelDescription &model, BlockDescription &block,
                 const DecoderFields &fields);

// The keys of GPT-2's config.json, which its followers have too: n_head, n_embd, ..
KeyNames gptNames();

// How many layers, under the key of model.names.
int64_t readLayerCount(Config &config, const ModelDescription &model);

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

// Whether each layer has the window: as layer_types says, or, where it is missing, all but each `every`th; 0: all.
std::vector<bool> readSlidingLayers(Config &config, int64_t layers, int64_t every);

// sliding_window; null: 0, missing: the class's default.
int64_t readWindow(Config &config, int64_t fallback);

// sliding_window_pattern: the last of each so many layers sees all. Some files have the key behind an underscore.
int64_t readWindowPattern(Config &config, int64_t fallback);

// Llama's names with others for some roles.
TensorNames withRows(std::span<const TensorRow> rows);

// layer_types, checked: full_attention or sliding_attention; empty when absent or wrong.
std::vector<std::string> readLayerTypes(Config &config, int64_t layers);

// The attention window of each layer, 0 for none, from use_sliding_window, sliding_window, max_window_layers
// and layer_types (Qwen). Empty when a problem was recorded.
std::vector<int64_t> readLayerWindows(Config &config, int64_t layers);

// Tensors of the Llama layout with every bias and norm that some family has.
extern const TensorNames kDecoderTensors;
// DeepSeek's names of shared experts.
extern const std::span<const TensorRow> kSharedExpertsRows;

} // namespace mgc::frontend
