// The reader that GLM-4 and GLM-4-0414 share: neighbours of a half of each head rotate, gate and up are one matrix.
#pragma once

#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

bool readGlm(Config &config, ModelDescription &model, BlockDescription &block);

extern const std::span<const TensorRow> kGlmRows;

} // namespace mgc::frontend
