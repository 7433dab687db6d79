// Readers of what many families have, for their functions.
#pragma once

#include "model/Vocabulary.h"
#include "model/families/Family.h"

namespace mgc::frontend {

// Reads the fields that all decoders have into the model and into a block: a serial layer with a norm before each branch, scores
// over the root of the head's size.
void readDecoder(Reading &reading, const DecoderFields &fields);

// The keys of GPT-2's config.json, which its followers have too: n_head, n_embd, ..
KeyNames gptNames();

// Attention and the mlp read the same norm.
void setParallel(BlockDescription &block);

// How many experts a layer has and a token chooses.
Experts readExperts(Config &config, std::string_view countKey);

// layer_types, checked: full_attention or sliding_attention; empty when absent or wrong.
std::vector<std::string> readLayerTypes(Reading &reading);

// Whether each layer has the window: as layer_types says, or, where it is missing, all but each `every`th; 0: all.
std::vector<bool> readSlidingLayers(Reading &reading, int64_t every);

// sliding_window; null: 0, missing: that of the classes.
int64_t readWindow(Config &config);

// The window of each layer, 0 for none, from use_sliding_window, sliding_window, max_window_layers and layer_types (Qwen). Empty
// when a problem was recorded.
std::vector<int64_t> readLayerWindows(Reading &reading);

// Frequencies of the layers of a type where not all have the same.
Rope readRopeOf(Reading &reading, std::string_view layerType, double theta, std::string_view thetaKey = "rope_theta");

} // namespace mgc::frontend
