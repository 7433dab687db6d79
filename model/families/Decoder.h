// Readers of what many families have, for their functions.
#pragma once

#include "model/Vocabulary.h"
#include "model/families/Family.h"

#include <functional>

namespace mgc::frontend {

// Reads the fields that all decoders have into the model and into a block: a serial layer with a norm before each
// branch, scores over the root of the head's size.
void readDecoder(Reading &reading, const DecoderFields &fields);

// The keys of GPT-2's config.json, which its followers have too: n_head, n_embd, ..
KeyNames gptNames();

// Heads of hidden_size / num_attention_heads, an mlp without a gate, and layer norms as in GPT-2.
DecoderFields gptLike(DecoderFields fields, const Norm &norm = layerNorm(1e-5));

// The size of a head, 0 where one of the sizes is. Heads that do not divide the hidden size are refused.
int64_t headDimOf(Config &config, std::string_view headsKey, int64_t heads, std::string_view hiddenKey, int64_t hidden);

// The bound of queries, keys and values.
void readClip(Reading &reading);

// Attention and the mlp read the same norm.
void setParallel(BlockDescription &block);

// How many experts a layer has and a token chooses.
Experts readExperts(Config &config, std::string_view countKey);

// layer_types, checked: full_attention or sliding_attention; empty when absent or wrong.
std::vector<std::string> readLayerTypes(Reading &reading);

// Whether each layer has the window: as layer_types says, or, where it is missing, `rule`. Layers with a window are
// refused where there is none: hasWindow.
using LayerRule = std::function<bool(int64_t layer)>;
std::vector<bool> readSlidingLayers(Reading &reading, const LayerRule &rule, bool hasWindow = true);

LayerRule allButEach(int64_t every); // 0: all

// sliding_window; null: 0.
int64_t readWindow(Config &config);

// The window of each layer, 0 for none, from use_sliding_window, sliding_window, max_window_layers and layer_types
// (Qwen). Empty when a problem was recorded.
std::vector<int64_t> readLayerWindows(Reading &reading);

// Frequencies of the layers of a type where not all have the same.
Rope readRopeOf(Reading &reading, std::string_view layerType, double theta, std::string_view thetaKey = "rope_theta");

} // namespace mgc::frontend
