// The reader and the table that GPT-2 and StarCoder share: learned positions, layer norms, biases, dropout.
#pragma once

#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

// Reads one layer, under the keys of gptNames. False when the sizes are not usable.
bool readGpt2(Config &config, ModelDescription &model, BlockDescription &block, std::string_view activation);

extern const std::span<const TensorRow> kGpt2Rows; // weights stored [in, out]

} // namespace mgc::frontend
