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

struct DecoderDefaults {          // of fields that are absent or null; 0: see there
  int64_t headDim = 0;            // 0: hidden_size / num_attention_heads
  bool groupsMayBeAbsent = false; // then num_attention_heads
  double ropeTheta = 0;           // 0: required
};

// Reads the fields all of them have into the model and into `block`. False when the sizes are not usable; the
// problems are recorded then.
bool readDecoder(Config &config, ModelDescription &model, BlockDescription &block,
                 const DecoderDefaults &defaults);

// How many experts a layer has and a token chooses.
Experts readExperts(Config &config, std::string_view countKey);

// The coefficient of Hugging Face's auxiliary loss, which is part of the loss only where output_router_logits says so.
void readPooledAuxLoss(Config &config, ModelDescription &model, const std::vector<BlockDescription> &layers);

// The attention window of each layer, 0 for none, from use_sliding_window, sliding_window, max_window_layers
// and layer_types (Qwen). Empty when a problem was recorded.
std::vector<int64_t> readLayerWindows(Config &config, int64_t layers);

// Tensors of the Llama layout with every bias and norm that some family has.
extern const TensorNames kDecoderTensors;

} // namespace mgc::frontend
